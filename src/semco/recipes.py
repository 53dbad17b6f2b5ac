"""Named runs: the paper's tables at full size, a twin of each that two cores can finish, and the ablations.

A recipe is a set of configuration values; a file, options and ``--set`` go over it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import semco.methods  # noqa: F401 (fills the registry of method configurations)
from semco.config import Config, assignment, merge, read_yaml
from semco.errors import UserError, unknown

Values = dict[str, Any]


@dataclass(frozen=True)
class Recipe:
    about: str
    values: Values
    published: str = ""  # error rate in the paper, percent
    needs: str = ""  # what must be given as DATA, where the recipe cannot know where it lies


# One method against another on one's own data: the rules of the paper's text and of the authors' released code, and
# the paper's ablations.
VARIANTS: dict[str, Recipe] = {
    "demo": Recipe(
        "SemCo on the bundled images, minutes on a laptop",
        {
            "data": {"source": "fashion-mini", "labels_per_class": 4},
            "model": {"backbone": "wrn-10-1"},
            "method": {"name": "semco"},
            "training": {"steps": 400, "batch_size": 32, "mu": 3},
        },
    ),
    "semco-paper": Recipe(
        "SemCo with the scores and vectors of the paper's text",
        {"labels": {"targets": "embedding"}, "method": {"name": "semco", "scoring": "paper"}},
    ),
    "semco-reference": Recipe(
        "SemCo with the scores and vectors of the authors' released code",
        {"labels": {"targets": "embedding"}, "method": {"name": "semco", "scoring": "reference"}},
    ),
    "semco-no-grouping": Recipe("ablation: every class is a group of its own", {"labels": {"eps": 0.0}}),
    "semco-no-cotraining": Recipe(
        "ablation: the heads do not teach each other", {"method": {"name": "semco", "lambda_co": 0.0}}
    ),
    "semco-one-hot-targets": Recipe("ablation: one-hot targets for both heads", {"labels": {"targets": "one_hot"}}),
    "semco-vectors-as-they-are": Recipe(
        "ablation: the semantic head predicts label vectors that are not centred", {"labels": {"targets": "embedding"}}
    ),
    "semco-hard-labels": Recipe(
        "ablation: the semantic head teaches its best class, not the distribution in the group",
        {"method": {"name": "semco", "lesson": "label"}},
    ),
    "semco-full-trust": Recipe(
        "ablation: pseudo-labels weigh the same however sure the heads are",
        {"method": {"name": "semco", "trust": "full"}},
    ),
    "semco-fixed": Recipe(
        "SemCo with fixed thresholds on both heads, as FixMatch", {"method": {"name": "semco", "thresholds": "fixed"}}
    ),
    **{
        f"semco-{rule}": Recipe(
            f"SemCo with {title}'s thresholds on both heads", {"method": {"name": "semco", "thresholds": rule}}
        )
        for rule, title in (("flexmatch", "FlexMatch"), ("softmatch", "SoftMatch"))
    },
}

# Data set -> backbone, image size, and the published error of (FixMatch, SemCo) by number of labels and mu.
Published = dict[tuple[int, int], tuple[str, str]]
PAPER: dict[str, tuple[str, int | None, Published]] = {
    "cifar10": (
        "wrn-28-2",
        None,
        {
            (250, 3): ("5.78±0.23", "5.87±0.31"),
            (250, 7): ("4.55±0.12", "5.12±0.27"),
            (4000, 3): ("4.52±0.01", "4.43±0.01"),
            (4000, 7): ("4.49±0.05", "3.80±0.08"),
        },
    ),
    "cifar100": (
        "wrn-28-2",
        None,
        {
            (2500, 3): ("38.45±0.51", "33.80±0.57"),
            (2500, 7): ("33.64±0.07", "31.93±0.01"),
            (4000, 3): ("32.22±0.21", "29.40±0.18"),
            (4000, 7): ("31.27±1.30", "28.61±0.23"),
            (10000, 3): ("28.42±0.09", "25.07±0.04"),
            (10000, 7): ("26.13±0.18", "24.45±0.12"),
        },
    ),
    "mini-imagenet": (
        "resnet18",
        84,
        {
            (1000, 3): ("66.23±1.13", "55.35±0.71"),
            (1000, 7): ("60.97±0.31", "59.35±0.23"),
            (4000, 3): ("59.73±5.45", "46.01±0.93"),
            (4000, 7): ("49.79±0.11", "49.46±2.20"),
            (10000, 3): ("44.66±0.12", "41.25±0.76"),
            (10000, 7): ("44.27±0.23", "42.78±0.35"),
        },
    ),
    "cub200": ("resnet50", 224, {(1000, 3): ("84.35", "79.44"), (2000, 3): ("72.15", "66.76")}),
    "domainnet-real": ("resnet50", 224, {(6900, 3): ("41.34", "35.32"), (10350, 3): ("39.04", "32.89")}),
}
# Fields that may be paths.
PATHS = ("data.source", "data.root", "labels.path", "labels.encoder")
# Of these the official files are read; of the others DATA is a folder of class folders.
REGISTERED = ("cifar10", "cifar100")
# What a twin changes: a small network, small images, a run of minutes.
CPU: Values = {
    "model": {"backbone": "wrn-10-2"},
    "training": {"epochs": None, "steps": 1200, "batch_size": 32},
}
CPU_IMAGE_SIZE = 32


def paper_recipes() -> dict[str, Recipe]:
    """Every cell of the paper's tables for FixMatch and SemCo, each with its twin for a CPU."""
    recipes: dict[str, Recipe] = {}
    for data, (backbone, size, cells) in PAPER.items():
        for (labels, mu), published in cells.items():
            for method, error in zip(("fixmatch", "semco"), published, strict=True):
                name = f"{data}-{labels}-mu{mu}-{method}"
                full = _paper_values(data, backbone, size, labels, mu, method)
                about = f"{data}, {labels} labels, mu {mu}, {method}"
                needs = "" if data in REGISTERED else f"the folder of class folders of {data}"
                recipes[name] = Recipe(about, full, error, needs)
                small = merge(full, merge(CPU, {"data": {"image_size": CPU_IMAGE_SIZE if size else None}}))
                recipes[f"{name}-cpu"] = Recipe(f"{about}: small enough for two cores", small, needs=needs)
    return recipes


def _paper_values(data: str, backbone: str, size: int | None, labels: int, mu: int, method: str) -> Values:
    values: Values = {
        "data": {"labels": labels, "image_size": size},
        "model": {"backbone": backbone},
        "method": {"name": method},
        "training": {"epochs": 300, "batch_size": 64, "mu": mu},
    }
    if data in REGISTERED:
        values["data"]["source"] = data
    if data == "cub200":  # attributes instead of names; the file is given by --set labels.path=...
        values["labels"] = {"source": "attributes"}
    return values


RECIPES: dict[str, Recipe] = {**VARIANTS, **paper_recipes()}


def configure(
    recipe: str | None = None,
    file: Path | None = None,
    options: Mapping[str, Any] | None = None,
    settings: Sequence[str] = (),
) -> Config:
    """Defaults, then a recipe, a YAML file, options, and ``dotted.key=value`` settings; the later wins."""
    if recipe is not None and recipe not in RECIPES:
        raise unknown("recipe", recipe, RECIPES)
    values: Values = dict(RECIPES[recipe].values) if recipe else {}
    if file is not None:
        values = over(values, _read(file))
    values = over(values, options or {})
    for setting in settings:
        values = over(values, assignment(setting))
    if recipe is not None and RECIPES[recipe].needs and "source" not in (values.get("data") or {}):
        raise UserError(f"recipe {recipe!r} needs DATA: give {RECIPES[recipe].needs}.")
    return Config.parse(_from_the_root(values))


def _from_the_root(values: Values) -> Values:
    """Paths where there is something become absolute, so that a run can be resumed from any folder."""
    from semco.data.sources import REGISTERED as NAMES

    for dotted in PATHS:
        section, _, field = dotted.partition(".")
        content = values.get(section)
        place = content.get(field) if isinstance(content, Mapping) else None
        if isinstance(place, str | Path) and place not in NAMES and (path := Path(place).expanduser()).exists():
            values = merge(values, {section: {field: str(path.resolve())}})
    return values


def over(values: Values, new: Mapping[str, Any]) -> Values:
    """Merge, where one way to say a run's length or the number of labels takes the place of the other."""
    for section, pair in (("training", ("steps", "epochs")), ("data", ("labels", "labels_per_class"))):
        said = new.get(section)
        if isinstance(said, Mapping) and any(said.get(key) is not None for key in pair):
            cleared = {key: None for key in pair if said.get(key) is None}
            values = merge(values, {section: cleared})
    return merge(values, new)


def _read(file: Path) -> Values:
    try:
        return read_yaml(file.read_text(encoding="utf-8"), str(file))
    except OSError as error:
        raise UserError(f"cannot read the configuration {file}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise UserError(f"the configuration {file} is not a text file in UTF-8.") from None
