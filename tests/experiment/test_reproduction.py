"""The paper's tables as cells; the numbers here were typed from the paper a second time."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from semco.config import Config, LabelsConfig, configure
from semco.data.class_names import class_names
from semco.data.names import simplify_name
from semco.errors import UserError
from semco.experiment.comparison import Outcome
from semco.experiment.paper.gpu_hours import GpuEstimate, count_operations
from semco.experiment.paper.groups import GRID, compare_groups, published_groups
from semco.experiment.paper.reproduction import (
    PaperCell,
    StepEstimate,
    cell_config,
    collect,
    make_runs,
    paper_cells,
    plan_cells,
    total_hours,
    unpublished,
)
from semco.run.result import RunResult

COLUMNS = (
    "cifar10-250 cifar10-4000 cifar100-2500 cifar100-4000 cifar100-10000 "
    "mini-imagenet-1000 mini-imagenet-4000 mini-imagenet-10000"
)
TABLE1 = """
Pseudo-Label      | 49.78±0.43 16.09±0.28 - - - - - -
Mean Teacher      | 32.32±2.30 9.19±0.19 - - - - 72.51±0.22 57.55±1.11
UDA               | 8.82±1.08 4.88±0.18 33.13±0.22 - 24.50±0.25 - - -
Label Propagation | - 12.69±0.29* - - - - 70.29±0.81 57.58±1.47
PLCB              | 24.81±5.35 6.28±0.30 - 37.55±1.09* 32.15±0.50* - 56.49±0.51 46.08±0.11
MixMatch          | 11.29±0.75 6.24±0.07 39.70±0.27 - 28.59±0.31 60.97±0.31 49.79±0.11 44.27±0.23
FixMatch, mu 3    | 5.78±0.23 4.52±0.01 38.45±0.51 32.22±0.21 28.42±0.09 66.23±1.13 59.73±5.45 44.66±0.12
FixMatch, mu 7    | 4.55±0.12 4.49±0.05 33.64±0.07 31.27±1.30 26.13±0.18 60.97±0.31 49.79±0.11 44.27±0.23
SemCo, mu 3       | 5.87±0.31 4.43±0.01 33.80±0.57 29.40±0.18 25.07±0.04 55.35±0.71 46.01±0.93 41.25±0.76
SemCo, mu 7       | 5.12±0.27 3.80±0.08 31.93±0.01 28.61±0.23 24.45±0.12 59.35±0.23 49.46±2.20 42.78±0.35
"""
OTHERS = {
    "table2": (
        "cub200-1000 cub200-2000 domainnet-real-6900 domainnet-real-10350",
        "Supervised | - 70.11 47.9 45.2\nFixMatch | 84.35 72.15 41.34 39.04\nSemCo | 79.44 66.76 35.32 32.89",
    ),
    "table3": (
        "mini-imagenet-1000 cifar100-2500",
        "grouping and co-training | 55.35 31.93\nco-training only | 59.60 33.09\ngrouping only | 60.39 33.19\n"
        "neither | 62.16 34.25",
    ),
    "table4": ("cifar100-2500 mini-imagenet-1000", "embedding targets | 31.93 55.35\none-hot targets | 33.33 60.33"),
}


def typed(columns: str, rows: str) -> dict[tuple[str, str], str]:
    cells = {}
    for line in rows.strip().splitlines():
        row, _, numbers = line.partition("|")
        for column, number in zip(columns.split(), numbers.split(), strict=True):
            if number != "-":
                cells[row.strip(), column] = number
    return cells


@pytest.mark.parametrize(
    ("table", "columns", "rows"), [("table1", COLUMNS, TABLE1), *((k, *v) for k, v in OTHERS.items())]
)
def test_every_cell_is_as_published(table: str, columns: str, rows: str) -> None:
    found = {(cell.row, cell.column): cell.published for cell in paper_cells([table])}
    assert found == typed(columns, rows)


def test_every_recipe_makes_a_configuration() -> None:
    for cell in paper_cells(["all"]):
        options = {"data": {"source": "cifar100"}, "labels": {"source": "bundled"}}
        full = cell_config(cell, "full", 1, options)
        assert full.training.seed == 1
        assert full.data.pool == "unlabelled"
        assert cell_config(cell, "cpu", 1, options).training.steps == 600
        assert (full.model.backbone == "cnn-13") == cell.published.endswith("*")


def test_cells_have_the_settings_of_the_paper() -> None:
    by_row = {cell.row: cell_config(cell, "full", 0, {}) for cell in paper_cells(["table3"], ["cifar100-2500"])}
    settings = {row: (c.labels.eps, c.method.lambda_co, c.training.mu) for row, c in by_row.items()}  # type: ignore[attr-defined]
    assert settings == {
        "grouping and co-training": (0.2, 1.0, 7),
        "co-training only": (0.0, 1.0, 7),
        "grouping only": (0.2, 0.0, 7),
        "neither": (0.0, 0.0, 7),
    }
    eps = [cell_config(cell, "full", 0, {}) for cell in paper_cells(["eps"])]
    assert [c.labels.eps for c in eps[:9]] == [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]
    assert {(c.training.epochs, c.optim.warmup_epochs) for c in eps} == {(100, 10)}
    mixmatch = {c.column: cell_config(c, "full", 0, {}) for c in paper_cells(["table1"]) if c.row == "MixMatch"}
    assert {data: c.method.lambda_u for data, c in mixmatch.items()} == {  # type: ignore[attr-defined]
        data: 150 if data.startswith("cifar100") else 75 for data in mixmatch
    }


def test_every_cell_looks_names_up_in_the_plain_store() -> None:
    configs = [cell_config(cell, scale, 0, {}) for cell in paper_cells(["all"]) for scale in ("full", "cpu")]  # type: ignore[arg-type]
    sources = {c.labels.source for c in configs if c.data.source != "cub200"}
    assert sources == {"plain"}
    assert {c.labels.unknown_names for c in configs} == {"own"}
    assert {c.labels.source for c in configs if c.data.source == "cub200"} == {"attributes"}


def test_another_method_has_no_published_number() -> None:
    cells = paper_cells(["table4"], ["cifar100-2500"], "semco_plus")
    assert [(cell.recipe, cell.published) for cell in cells] == [
        ("cifar100-2500-mu7,semco_plus", ""),
        ("cifar100-2500-mu7,semco_plus,one-hot-targets", ""),
    ]
    assert [cell.row for cell in paper_cells(["fig2"], ["cifar100-1000"], "semco_plus")] == ["fixmatch", "semco_plus"]


def test_published_numbers_stand_only_beside_the_published_setting(tmp_path: Path) -> None:
    """Without its number, a cell keeps everything else, so the runs of its setting are still found."""
    cells = [
        PaperCell("table1", "SemCo, mu 7", "cifar100-2500", "31.93±0.01", "cifar100-2500-mu7,semco"),
        PaperCell("eps", "labels.eps=0.1", "cifar100-2500", "", "cifar100-2500-mu7,semco", ("labels.eps=0.1",)),
    ]
    bare = unpublished(cells)
    assert bare == [
        PaperCell("table1", "SemCo, mu 7", "cifar100-2500", "", "cifar100-2500-mu7,semco"),
        PaperCell("eps", "labels.eps=0.1", "cifar100-2500", "", "cifar100-2500-mu7,semco", ("labels.eps=0.1",)),
    ]
    assert cells[0].published == "31.93±0.01"
    run = make_runs(cells[:1], "cpu", [0], tmp_path, {})[0]
    numbers = {"method": "semco", "run": "", "head": "one_hot", "num_labels": 1, "steps": 1, "seconds": 1.0}
    outcome = Outcome(run, RunResult(**numbers, test_error=0.4))  # type: ignore[arg-type]
    assert [result.text for result in collect(bare, [outcome])] == ["40.00", "not run"]


def test_unknown_names_are_refused() -> None:
    with pytest.raises(UserError, match="unknown table or figure 'table9'"):
        paper_cells(["table9"])
    with pytest.raises(UserError, match="no cell is in a column called svhn; the columns are mini-imagenet-1000"):
        paper_cells(["table3"], ["svhn"])


def test_a_setting_of_two_tables_is_run_once_and_means_are_of_the_splits(tmp_path: Path) -> None:
    cells = paper_cells(["table3", "table4"], ["cifar100-2500"])
    runs = make_runs(cells, "cpu", [0, 1], tmp_path, {})
    assert len(runs) == 2 * (4 + 1)
    errors = iter([0.30, 0.34])
    outcomes = []
    for run in runs:
        result = None
        if run.variant == cells[0].folder:
            numbers = {"method": "semco", "run": "", "head": "one_hot", "num_labels": 1, "steps": 1, "seconds": 1.0}
            result = RunResult(**numbers, test_error=next(errors))  # type: ignore[arg-type]
        outcomes.append(Outcome(run, result, "" if result else "the data are not there"))
    texts = {r.cell.row: r.text for r in collect(cells, outcomes)}
    assert texts["grouping and co-training"] == texts["embedding targets"] == "32.00±2.00"
    assert texts["neither"] == "the data are not there"


def test_the_estimate_is_proportional_to_the_steps() -> None:
    estimate = StepEstimate()
    estimate._seconds[("wrn-10-1", 16)] = 0.36
    config = cell_config(paper_cells(["table3"], ["cifar100-2500"])[0], "cpu", 0, {})
    assert estimate.hours(config) == {"this machine": pytest.approx(0.36 * 16 * (1 + 7 * 4 / 3) * 600 / 3600)}


def test_a_plan_has_the_hours_of_all_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StepEstimate, "hours", lambda _, config: {"here": config.training.total_steps / 1000})
    cells = paper_cells(["table3"], ["cifar100-2500"])
    planned = plan_cells(cells, "cpu", (0, 1, 2), {})
    assert [each.cell for each in planned] == cells
    assert [each.steps for each in planned] == [600] * 4
    assert [each.hours["here"] for each in planned] == pytest.approx([1.8] * 4)
    assert planned[0].to_json() == cells[0].to_json() | {"steps": 600, "hours": {"here": 1.8}}
    assert total_hours(planned) == {"here": pytest.approx(7.2)}


def test_a_gpu_takes_what_was_published() -> None:
    """The published steps themselves: FixMatch on four V100 in 16 hours, ResNet-50 on one at 367 images per second."""
    config = configure("cifar10-250-mu7,fixmatch", settings=["training.epochs=null", "training.steps=1048576"])
    hours = GpuEstimate().hours(config)
    assert hours["V100"] == pytest.approx(16 * 4, rel=0.05)
    assert hours["2080 Ti"] == pytest.approx(1048.576 * 5.5 / 60, rel=0.05)
    assert hours["V100"] / hours["A100"] == pytest.approx(938 / 367)
    large = configure(settings=["model.backbone=resnet50", "data.image_size=224", "training.steps=367"])
    training = large.training.model_copy(update={"batch_size": 3600, "mu": 0})
    seconds = 3600 * GpuEstimate().hours(large.model_copy(update={"training": training}))["V100"]
    assert seconds == pytest.approx(3600, rel=0.05)


def test_operations_are_counted_layer_by_layer() -> None:
    """WRN-10-1 at 8 pixels, by hand: 3 x 3 and 1 x 1 convolutions; no gradient of the images is needed."""
    config = Config.parse({"model": {"backbone": "wrn-10-1", "pretrained": "none"}})
    first = 64 * 9 * 3 * 16
    blocks = 64 * 9 * (16 * 16 + 16 * 16)
    blocks += 16 * (9 * (16 * 32 + 32 * 32) + 16 * 32)
    blocks += 4 * (9 * (32 * 64 + 64 * 64) + 32 * 64)
    assert count_operations(config, 8) == 2 * (2 * first + 3 * blocks)


def test_a_cell_as_json() -> None:
    cell = PaperCell("table1", "UDA", "cifar10-250", "8.82±1.08", "cifar10-250-mu3,uda")
    assert json.loads(json.dumps(cell.to_json())).keys() >= {"table", "row", "column", "published", "recipe"}


PAIRS = {  # pairs of classes in the tables of the supplement: the sum of n (n - 1) / 2 over the groups
    ("cifar10", "retrofitted"): 0,
    ("cifar100", "retrofitted"): 3 + 6,
    ("cifar100", "glove"): 36 + 78 + 1 + 1 + 3 + 1 + 1,
    ("mini-imagenet", "retrofitted"): 21 + 3,
    ("mini-imagenet", "glove"): 15 + 15,
    ("domainnet-real", "retrofitted"): 1 + 3 + 1 + 1 + 1 + 28 + 1 + 1 + 3 + 1 + 1,
    ("domainnet-real", "glove"): 13 * 1 + 5 * 3 + 2 * 6 + 10 + 15 + 21,  # 23 groups: 13 of two, 5 of three, ...
}


def test_the_groups_of_the_supplement() -> None:
    tables = {(data, kind): table for data, one in published_groups().items() for kind, table in one.tables.items()}
    assert {key: sum(len(g) * (len(g) - 1) // 2 for g in table) for key, table in tables.items()} == PAIRS
    assert {data: one.eps for data, one in published_groups().items()} == {
        "cifar10": 0.2,
        "cifar100": 0.2,
        "mini-imagenet": 0.3,
        "domainnet-real": 0.2,
    }
    for (data, _), table in tables.items():  # every name is a class of the data set, in one group at most
        names = [simplify_name(name) for group in table for name in group]
        assert len(set(names)) == len(names)
        assert set(names) <= set(map(simplify_name, class_names(data)))


def test_groups_of_a_matrix_beside_the_published_ones(tmp_path: Path) -> None:
    """Five of the published pairs have equal vectors, and so have apple and bear; all others are orthogonal."""
    names = class_names("cifar100")
    vectors = np.eye(len(names))
    pairs = ["bicycle motorcycle", "boy girl", "crab lobster", "dolphin whale", "man woman", "apple bear"]
    for first, second in (pair.split() for pair in pairs):
        vectors[names.index(second)] = vectors[names.index(first)]
    np.save(tmp_path / "vectors.npy", vectors)
    compared = compare_groups("cifar100", LabelsConfig(source="matrix", path=tmp_path / "vectors.npy"))
    assert [one.eps for one in compared] == list(GRID)
    (papers,) = (one for one in compared if one.is_papers)
    assert papers.eps == 0.2
    assert papers.groups == tuple(tuple(pair.split()) for pair in sorted(pairs))
    score = papers.scores["retrofitted"]
    assert (score.right, score.found, score.published) == (5, 6, 9)
    assert (score.precision, score.recall) == (pytest.approx(5 / 6), pytest.approx(5 / 9))


def test_the_groups_of_the_plain_store() -> None:
    """Pairs right, found and published at the paper's eps, as docs/paper.md gives them."""
    labels = configure("paper").labels
    found = {}
    for data in published_groups():
        (papers,) = (one for one in compare_groups(data, labels) if one.is_papers)
        score = papers.scores["retrofitted"]
        found[data] = (score.right, score.found, score.published)
    assert found == {
        "cifar10": (0, 1, 0),
        "cifar100": (4, 9, 9),
        "mini-imagenet": (22, 77, 24),
        "domainnet-real": (35, 49, 42),
    }
