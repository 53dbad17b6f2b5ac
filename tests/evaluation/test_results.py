"""An evaluation computed by hand, sample images, and the table of pseudo-labels."""

from __future__ import annotations

import base64
import json
from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from semco.errors import UserError
from semco.evaluation import pool_labels
from semco.evaluation.pool_labels import write_pseudo_labels
from semco.evaluation.results import evaluate_probabilities, group_names, image_batches, write_evaluation
from semco.evaluation.samples import pick_samples, surest_and_least_sure, unlabelled_samples
from semco.pseudo_labels.semantic import SemanticPseudoLabels
from semco.types import Outputs, PseudoLabels

NAMES = ("shirt", "bag", "coat")
GROUPS = np.array([0, 1, 0])
# Predictions 0, 1, 2, 0, 1; the true class of the last image is unknown.
PROBABILITIES = np.array(
    [[0.8, 0.1, 0.1], [0.2, 0.5, 0.3], [0.1, 0.3, 0.6], [0.55, 0.1, 0.35], [0.0, 1.0, 0.0]], dtype=np.float32
)
TRUTH = np.array([0, 1, 1, 2, -1])


def test_evaluation_by_hand() -> None:
    evaluation = evaluate_probabilities(PROBABILITIES, TRUTH, NAMES, GROUPS)
    assert evaluation.num_images == 4
    assert evaluation.accuracy == 0.5
    assert evaluation.top5 == 1.0
    assert evaluation.group_accuracy == 0.75  # the coat predicted as a shirt is in the correct group
    assert evaluation.per_class() == {"shirt": 1.0, "bag": 0.5, "coat": 0.0}
    assert evaluation.per_group() == {"shirt + coat": 1.0, "bag": 0.5}


def test_summary_is_plain_json() -> None:
    summary = evaluate_probabilities(PROBABILITIES, TRUTH, NAMES, GROUPS, "semantic").summary()
    assert json.loads(json.dumps(summary)) == summary
    assert summary["test_accuracy"] + summary["test_error"] == 1.0
    assert summary["head"] == "semantic"


def test_an_error_if_no_class_is_known() -> None:
    with pytest.raises(UserError, match="no image to evaluate on has a known class"):
        evaluate_probabilities(PROBABILITIES, np.full(5, -1), NAMES, GROUPS)


def test_groups_are_named_by_their_members() -> None:
    assert group_names(["a", "b", "c"], [1, 0, 1]) == ["b", "a + c"]


def test_batches_are_normalised_in_order_and_unpadded() -> None:
    images = torch.arange(5 * 2, dtype=torch.uint8).mul(10).view(5, 2, 1, 1)
    parts = list(image_batches(images, mean=(0.0, 1.0), std=(0.5, 2.0), batch_size=2))
    assert [len(part) for part in parts] == [2, 2, 1]
    joined = torch.cat(parts).flatten(1)
    expected = [[20 * i / 255 / 0.5, ((20 * i + 10) / 255 - 1) / 2] for i in range(5)]
    torch.testing.assert_close(joined, torch.tensor(expected))


def test_samples_are_random_images_and_the_most_confident_mistakes() -> None:
    images = torch.arange(5 * 3 * 4, dtype=torch.uint8).view(5, 3, 2, 2)
    samples = pick_samples(images, PROBABILITIES, TRUTH, random=3, mistakes=5)
    assert [s.kind for s in samples] == ["random"] * 3 + ["mistake"] * 2
    first, second = samples[3:]
    assert (first.truth, first.label, first.runner_up) == (1, 2, 1)
    assert first.confidence == pytest.approx(0.6)
    assert (second.truth, second.label, second.runner_up) == (2, 0, 2)
    assert all(s.truth >= 0 for s in samples)
    picture = Image.open(BytesIO(base64.b64decode(first.image)))
    assert (picture.format, first.format) == ("PNG", "png")
    np.testing.assert_array_equal(np.asarray(picture), images[2].permute(1, 2, 0))


def test_samples_of_chosen_images() -> None:
    images = torch.arange(9, dtype=torch.uint8).view(9, 1, 1, 1)
    index = np.array([8, 1, 7, 2, 0])
    samples = pick_samples(images, PROBABILITIES, TRUTH, random=0, mistakes=5, index=index)
    shown = [int(np.asarray(Image.open(BytesIO(base64.b64decode(s.image)))).item()) for s in samples]
    assert shown == [7, 2]


def test_no_image_is_among_the_mistakes_and_among_the_random_ones() -> None:
    """The last of the five images has no true class; the third and fourth are mistakes."""
    images = torch.arange(5, dtype=torch.uint8).view(5, 1, 1, 1)
    samples = pick_samples(images, PROBABILITIES, TRUTH, random=5, mistakes=1, mistakes_first=True)
    assert [sample.kind for sample in samples] == ["mistake", *["random"] * 3]
    shown = [int(np.asarray(Image.open(BytesIO(base64.b64decode(sample.image)))).item()) for sample in samples]
    assert shown[0] == 2
    assert sorted(shown) == [0, 1, 2, 3]


def test_the_surest_image_of_each_class_and_the_least_sure_ones() -> None:
    class_ids, confidence = np.array([0, 0, 1, 1, 2, 0]), np.array([0.9, 0.95, 0.6, 0.5, 0.99, 0.3])
    surest, least = surest_and_least_sure(class_ids, confidence, most=2)
    assert surest.tolist() == [4, 1]
    assert least.tolist() == [5, 3]
    surest, least = surest_and_least_sure(class_ids, confidence)
    assert surest.tolist() == [4, 1, 2]
    assert least.tolist() == [5, 3, 0]
    assert [each.tolist() for each in surest_and_least_sure(class_ids[:0], confidence[:0])] == [[], []]


def test_samples_of_unlabelled_images_have_no_true_class() -> None:
    images = torch.arange(9, dtype=torch.uint8).view(9, 1, 1, 1)
    (sample,) = unlabelled_samples(images, np.array([5]), PROBABILITIES[2:3], "sure")
    assert (sample.truth, sample.label, sample.kind) == (-1, 2, "sure")
    assert np.asarray(Image.open(BytesIO(base64.b64decode(sample.image)))).item() == 5


def test_large_samples_are_reduced() -> None:
    samples = pick_samples(torch.zeros(5, 1, 300, 200, dtype=torch.uint8), PROBABILITIES, TRUTH)
    picture = Image.open(BytesIO(base64.b64decode(samples[0].image)))
    assert (picture.format, samples[0].format) == ("JPEG", "jpeg")
    assert picture.mode == "L"
    assert max(picture.size) == 224


def test_a_written_evaluation_holds_confusion_and_samples(tmp_path: Path) -> None:
    evaluation = evaluate_probabilities(PROBABILITIES, TRUTH, NAMES, GROUPS)
    samples = pick_samples(torch.zeros(5, 1, 4, 4, dtype=torch.uint8), PROBABILITIES, TRUTH)
    write_evaluation(tmp_path, evaluation, samples)
    values = json.loads((tmp_path / "evaluation.json").read_text())
    assert values["confusion"] == {"truth": [0, 1, 1, 2], "predicted": [0, 1, 2, 0], "counts": [1, 1, 1, 1]}
    assert values["groups"] == [0, 1, 0]
    assert len(values["samples"]) == len(samples)


@pytest.mark.parametrize("most", [1, 7, 1_000])
def test_a_pool_is_labelled_some_images_at_a_time(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_labels, "MOST_SCORES", most)
    logits = torch.from_numpy(np.random.default_rng(0).normal(size=(10, 3)))
    outputs = Outputs(features=torch.zeros(10, 2), logits=logits)
    seen: list[int] = []

    def pseudo_labels(some: Outputs, index: torch.Tensor) -> dict[str, PseudoLabels]:
        seen.append(len(index))
        torch.testing.assert_close(some.logits, logits[index])
        values, class_ids = some.logits.max(dim=-1)
        plain = PseudoLabels(class_ids, values, 2 * values)
        return {"one_hot": plain, "semantic": PseudoLabels(class_ids, values, values, group_ids=class_ids + 1)}

    found = pool_labels.label_pool(pseudo_labels, outputs)
    assert seen == {1: [1] * 10, 7: [2] * 5, 1_000: [10]}[most]
    assert found["one_hot"].class_ids.tolist() == logits.argmax(dim=-1).tolist()
    torch.testing.assert_close(found["one_hot"].confidence, 2 * logits.max(dim=-1).values)
    assert found["one_hot"].group_ids is None
    assert found["semantic"].group_ids is not None
    assert found["semantic"].group_ids.tolist() == (logits.argmax(dim=-1) + 1).tolist()


def test_table_of_pseudo_labels(tmp_path: Path) -> None:
    one_hot = PseudoLabels(torch.tensor([2, 0]), torch.tensor([1.0, 0.0]), torch.tensor([0.96, 0.4]))
    semantic = SemanticPseudoLabels(
        torch.tensor([1, 1]),
        torch.tensor([0.0, 1.0]),
        torch.tensor([0.5, 0.75]),
        group_ids=torch.tensor([1, 0]),
        class_weights=torch.tensor([[0.0, 1.0, 0.0], [0.0, 1.0, 0.0]]),
        target=torch.eye(2),
    )
    file = tmp_path / "pseudo_labels.parquet"
    both = {"one_hot": one_hot, "semantic": semantic}
    write_pseudo_labels(file, np.array([4, 9]), np.array([2, -1]), both, class_names=("cat", "dog", "ship"))
    table = pq.read_table(file).to_pydict()
    assert table["index"] == [4, 9]
    assert table["path"] == [None, None]
    assert table["truth"] == [2, -1]
    assert table["label_one_hot"] == [2, 0]
    assert table["retained_one_hot"] == [True, False]
    assert table["confidence_semantic"] == [0.5, 0.75]
    assert table["group_semantic"] == [1, 0]
    assert (table["name_one_hot"], table["name_semantic"]) == (["ship", "cat"], ["dog", "dog"])
    write_pseudo_labels(file, np.array([4]), np.array([2]), {}, paths=["a/b.png"])
    assert pq.read_table(file).to_pydict() == {
        "index": [4],
        "path": ["a/b.png"],
        "truth": [2],
    }


def test_labelled_images_are_not_in_the_table(tmp_path: Path) -> None:
    """Of three images, the second is labelled (-2): its class says nothing about the others."""
    pseudo = PseudoLabels(torch.tensor([2, 0, 1]), torch.tensor([1.0, 1.0, 0.0]), torch.tensor([0.5, 0.75, 0.25]))
    file, paths, names = tmp_path / "pseudo_labels.parquet", ["a.png", "b.png", "c.png"], ("cat", "dog", "ship")
    write_pseudo_labels(file, np.array([4, 7, 9]), np.array([2, -2, -1]), {"one_hot": pseudo}, paths, names)
    assert pq.read_table(file).to_pydict() == {
        "index": [4, 9],
        "path": ["a.png", "c.png"],
        "truth": [2, -1],
        "label_one_hot": [2, 1],
        "confidence_one_hot": [0.5, 0.25],
        "retained_one_hot": [True, False],
        "name_one_hot": ["ship", "dog"],
    }
