"""Splits: counts per class, disjointness, seeds, the pool, the saved form."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from semco.config import DataConfig
from semco.data.datasets import Dataset
from semco.data.split import Split, count_labels, make_split, read_labelled
from semco.errors import UserError

BALANCED = torch.arange(4).repeat(50)  # 200 images, 50 of each of 4 classes
# Labelled and validation images of 2 labels per class, 4 validation images and seed 7.
EXPECTED_SPLIT = ([19, 36, 80, 89, 97, 154, 183, 186], [2, 75, 84, 125])


def per_class(index: np.ndarray, labels: torch.Tensor, classes: int) -> list[int]:
    return torch.bincount(labels[torch.from_numpy(index)], minlength=classes).tolist()


class TestLabels:
    def test_labels_per_class(self) -> None:
        split = make_split(BALANCED, DataConfig(labels_per_class=4, validation="train"), seed=0)
        assert per_class(split.labelled, BALANCED, 4) == [4, 4, 4, 4]

    def test_total_labels_with_the_remainder_given_to_some_classes(self) -> None:
        split = make_split(BALANCED, DataConfig(num_labels=18, validation="train"), seed=0)
        assert sorted(per_class(split.labelled, BALANCED, 4)) == [4, 4, 5, 5]

    def test_the_seed_chooses_the_classes_that_get_the_remainder(self) -> None:
        splits = [make_split(BALANCED, DataConfig(num_labels=5, validation="train"), seed) for seed in range(20)]
        assert len({tuple(per_class(split.labelled, BALANCED, 4)) for split in splits}) == 4

    def test_all_labels_by_default(self) -> None:
        labels = torch.tensor([0, 1, -1, 0, 1, -1])
        split = make_split(labels, DataConfig(validation="none"), seed=0)
        assert split.labelled.tolist() == [0, 1, 3, 4]
        assert split.unlabelled.tolist() == [0, 1, 2, 3, 4, 5]
        assert split.validation.tolist() == []

    def test_fewer_labels_are_a_subset_of_more(self) -> None:
        few = make_split(BALANCED, DataConfig(labels_per_class=2, validation="train"), seed=3)
        many = make_split(BALANCED, DataConfig(labels_per_class=10, validation="train"), seed=3)
        assert set(few.labelled) < set(many.labelled)
        assert few.validation.tolist() == many.validation.tolist()

    def test_seeds_differ(self) -> None:
        config = DataConfig(labels_per_class=4, validation="train")
        chosen = [make_split(BALANCED, config, seed).labelled.tolist() for seed in range(5)]
        assert len({tuple(c) for c in chosen}) == 5

    def test_fewer_labels_than_classes(self) -> None:
        with pytest.raises(UserError, match="3 labels cannot cover 4 classes: use at least 4"):
            make_split(BALANCED, DataConfig(num_labels=3), seed=0)

    def test_too_many_labels_is_an_error_that_names_the_class(self) -> None:
        labels = torch.tensor([0] * 10 + [1] * 3)
        with pytest.raises(UserError, match="class 'dog' has 3 labelled images, but 4 are wanted"):
            make_split(labels, DataConfig(labels_per_class=4), seed=0, class_names=("cat", "dog"))

    def test_a_class_without_labels_is_an_error_that_names_it(self) -> None:
        with pytest.raises(UserError, match="class 'emu' has no labelled image"):
            make_split(torch.tensor([0, 1, 1]), DataConfig(), seed=0, class_names=("cat", "dog", "emu"))

    @pytest.mark.parametrize("labels", [[-1, -1], [0, 0]])
    def test_labels_of_fewer_than_two_classes(self, labels: list[int]) -> None:
        with pytest.raises(UserError, match="at least two classes"):
            make_split(torch.tensor(labels), DataConfig(), seed=0)


class TestValidation:
    def test_at_most_a_tenth_of_the_images(self) -> None:
        split = make_split(BALANCED, DataConfig(labels_per_class=4, validation="train"), seed=0)
        assert per_class(split.validation, BALANCED, 4) == [5, 5, 5, 5]

    def test_at_most_validation_size(self) -> None:
        split = make_split(BALANCED, DataConfig(labels_per_class=4, validation="train", validation_size=6), seed=0)
        assert sorted(per_class(split.validation, BALANCED, 4)) == [1, 1, 2, 2]

    def test_in_proportion_to_the_classes(self) -> None:
        labels = torch.tensor([0] * 75 + [1] * 25)
        split = make_split(labels, DataConfig(labels_per_class=5, validation="train"), seed=0)
        # 70 and 20 spare images share ten: 7.8 and 2.2.
        assert per_class(split.validation, labels, 2) == [8, 2]

    def test_from_the_labels_if_all_are_used(self) -> None:
        split = make_split(BALANCED, DataConfig(validation="labelled"), seed=0)
        assert per_class(split.validation, BALANCED, 4) == [10, 10, 10, 10]  # a fifth of 200
        assert per_class(split.labelled, BALANCED, 4) == [40, 40, 40, 40]

    def test_from_the_labels_if_configured(self) -> None:
        free = make_split(BALANCED, DataConfig(labels_per_class=5, validation="none"), seed=0)
        split = make_split(BALANCED, DataConfig(labels_per_class=5, validation="labelled"), seed=0)
        assert per_class(split.labelled, BALANCED, 4) == [4, 4, 4, 4]
        assert sorted([*split.labelled, *split.validation]) == free.labelled.tolist()

    def test_a_class_keeps_its_only_label(self) -> None:
        labels = torch.tensor([0] * 19 + [1])
        split = make_split(labels, DataConfig(validation="labelled"), seed=0)
        assert per_class(split.labelled, labels, 2) == [15, 1]
        assert per_class(split.validation, labels, 2) == [4, 0]

    def test_none(self) -> None:
        split = make_split(BALANCED, DataConfig(labels_per_class=4, validation="none"), seed=0)
        assert len(split.validation) == 0
        assert split.unlabelled.tolist() == list(range(200))

    @pytest.mark.parametrize(
        ("config", "message"),
        [
            (DataConfig(validation="train"), "'train' leaves no validation image: 0 labelled images"),
            (DataConfig(num_labels=4, validation="labelled"), "'labelled' leaves no validation image: of 4 labels"),
        ],
    )
    def test_a_rule_that_leaves_no_validation_image(self, config: DataConfig, message: str) -> None:
        with pytest.raises(UserError, match=message):
            make_split(BALANCED, config, seed=0)


class TestCounts:
    """How many labels each class gets, and which."""

    def test_in_proportion_to_the_classes(self) -> None:
        labels = torch.tensor([0] * 60 + [1] * 30 + [2] * 10)
        config = DataConfig(num_labels=13, label_spread="proportional", validation="none")
        # One for each class, and ten more for 59, 29 and 9 images: 6.1, 3.0 and 0.9.
        assert per_class(make_split(labels, config, seed=0).labelled, labels, 3) == [7, 4, 2]
        with pytest.raises(UserError, match="2 labels cannot cover 3 classes"):
            make_split(labels, DataConfig(num_labels=2, label_spread="proportional"), seed=0)

    def test_long_tailed(self) -> None:
        labels = torch.arange(5).repeat(100)
        config = DataConfig(labels_per_class=80, imbalance=16, validation="none")
        # 80 * 16^(-k/4)
        assert per_class(make_split(labels, config, seed=0).labelled, labels, 5) == [80, 40, 20, 10, 5]
        config = DataConfig(labels_per_class=3, imbalance=100, validation="none")
        assert per_class(make_split(labels, config, seed=0).labelled, labels, 5) == [3, 1, 1, 1, 1]

    @pytest.mark.parametrize(
        "fields",
        [{"imbalance": 2}, {"imbalance": 0.5, "labels_per_class": 4}, {"labelled_from": "x", "num_labels": 3}],
    )
    def test_fields_that_contradict_each_other(self, fields: dict[str, object]) -> None:
        with pytest.raises(ValueError, match=r"imbalance|labelled_from"):
            DataConfig.model_validate(fields)

    def test_listed_images(self) -> None:
        chosen = np.array([0, 1, 2, 3, 7])
        split = make_split(BALANCED, DataConfig(validation="none"), seed=0, chosen=chosen)
        assert split.labelled.tolist() == [0, 1, 2, 3, 7]
        few = make_split(BALANCED, DataConfig(validation="train"), seed=0, chosen=chosen)
        assert few.labelled.tolist() == [0, 1, 2, 3, 7]
        assert not set(few.validation) & set(chosen)
        with pytest.raises(UserError, match=r"lists no image of class '3'"):
            make_split(BALANCED, DataConfig(), seed=0, chosen=chosen[:3])

    @pytest.mark.parametrize(
        ("fields", "listed", "is_held_out", "expected"),
        [
            ({}, None, False, (200, 0)),
            ({"labels_per_class": 4}, None, False, (16, 184)),
            ({"num_labels": 18}, None, False, (18, 182)),
            ({}, [0, 1, 2, 3, 7], False, (5, 195)),
            ({"labels_per_class": 4}, None, True, (16, 181)),  # three images are held out by the source
            ({}, [0, 1, 2, 3, 7], True, (5, 192)),
        ],
    )
    def test_labels_that_are_used_and_left(
        self, fields: dict[str, int], listed: list[int] | None, is_held_out: bool, expected: tuple[int, int]
    ) -> None:
        held_out = torch.zeros(200, dtype=torch.bool)
        held_out[[5, 17, 180]] = is_held_out
        chosen = None if listed is None else np.array(listed)
        names = tuple("abcd")
        config = DataConfig(validation="none", **fields)  # type: ignore[arg-type]
        assert count_labels(BALANCED, config, 0, names, held_out, chosen) == expected
        split = make_split(BALANCED, config, 0, names, held_out, chosen)
        assert len(split.labelled) == expected[0]

    def test_images_that_the_source_holds_out(self) -> None:
        held_out = torch.zeros(200, dtype=torch.bool)
        held_out[[5, 17, 180]] = True
        split = make_split(BALANCED, DataConfig(labels_per_class=4, validation="none"), seed=1, held_out=held_out)
        assert split.validation.tolist() == [5, 17, 180]
        assert not {5, 17, 180} & ({*split.labelled} | {*split.unlabelled})
        assert len(split.unlabelled) == 197
        assert per_class(split.labelled, BALANCED, 4) == [4, 4, 4, 4]
        assert Split.from_json(split.to_json(), BALANCED).unlabelled.tolist() == split.unlabelled.tolist()

    def test_the_list_of_a_file(self, tmp_path: Path) -> None:
        images = torch.zeros((4, 3, 8, 8), dtype=torch.uint8)
        paths = tuple(f"{tmp_path}/{name}" for name in ("cat/a.png", "cat/b.png", "dog/c.png", "x.png"))
        data = Dataset("x", images, torch.tensor([0, 0, 1, -1]), ("cat", "dog"), train_paths=paths)
        file = tmp_path / "list.txt"
        config = DataConfig(source=str(tmp_path), labelled_from=file)
        for text in ("cat/b.png\n\ndog/c.png\n", f"{tmp_path}/dog/c.png\n./cat/b.png", "2\n1\n"):
            file.write_text(text)
            found = read_labelled(config, data)
            assert found is not None
            assert found.tolist() == [1, 2]
        for line, message in {
            "9": "no training image '9'",
            "cat/z.png": "no training image",
            "3": "has no label",
        }.items():
            file.write_text(f"0\n{line}\n")
            with pytest.raises(UserError, match=f"line 2: .*{message}"):
                read_labelled(config, data)
        assert read_labelled(DataConfig(), data) is None


def test_validation_images_come_from_every_class() -> None:
    labels = torch.tensor([0] * 2 + [1] * 2 + [2] * 62)
    split = make_split(labels, DataConfig(validation="labelled"), seed=0)
    assert per_class(split.validation, labels, 3) == [1, 1, 11]


def test_a_split_is_the_same_on_every_machine() -> None:
    """Written on another day; a change of the random numbers would choose other labels for the same seed."""
    split = make_split(BALANCED, DataConfig(labels_per_class=2, validation="train", validation_size=4), seed=7)
    assert (split.labelled.tolist(), split.validation.tolist()) == EXPECTED_SPLIT


class TestPool:
    """Six images by hand: 0, 2 and 4 of class 0 and 1, 3 of class 1, image 5 without a label."""

    labels = torch.tensor([0, 1, 0, 1, 0, -1])

    def split(self, pool: str, **fields: object) -> Split:
        return make_split(self.labels, DataConfig.model_validate({"pool": pool, **fields}), seed=0)

    def test_all_contains_the_labelled_images(self) -> None:
        split = self.split("all", validation="none")
        assert split.unlabelled.tolist() == [0, 1, 2, 3, 4, 5]
        assert split.num_without_label == 1

    def test_unlabelled_leaves_them_out(self) -> None:
        split = self.split("unlabelled", validation="none")
        assert split.labelled.tolist() == [0, 1, 2, 3, 4]
        assert split.unlabelled.tolist() == [5]
        assert split.num_without_label == 1

    def test_images_whose_label_is_not_used_are_in_the_pool(self) -> None:
        split = self.split("unlabelled", labels_per_class=1, validation="none")
        assert sorted([*split.labelled, *split.unlabelled]) == [0, 1, 2, 3, 4, 5]
        assert (len(split.labelled), len(split.unlabelled), split.num_without_label) == (2, 4, 4)

    def test_validation_images_are_in_neither_pool(self) -> None:
        """A fifth of five labels is held out: one image."""
        every, rest = (self.split(pool, validation="labelled") for pool in ("all", "unlabelled"))
        assert len(every.validation) == 1
        assert every.validation.tolist() == rest.validation.tolist()
        assert every.labelled.tolist() == rest.labelled.tolist()
        assert (len(every.unlabelled), every.num_without_label) == (5, 1)
        assert rest.unlabelled.tolist() == [5]

    def test_an_empty_pool_is_an_error_that_names_the_way_out(self) -> None:
        message = (
            r"data.pool = 'unlabelled' leaves no image in the unlabelled pool: of 5 training images, 5 are labelled "
            r"and 0 held out for validation; .* set data.pool to 'all'"
        )
        with pytest.raises(UserError, match=message):
            make_split(self.labels[:5], DataConfig(pool="unlabelled", validation="none"), seed=0)

    @pytest.mark.parametrize("pool", ["all", "unlabelled"])
    def test_a_saved_split_has_the_same_pool(self, pool: str) -> None:
        split = self.split(pool, labels_per_class=1, validation="none")
        written = json.loads(split.to_json())
        assert (written["pool"], written["train_images"]) == (pool, 6)
        read = Split.from_json(split.to_json(), self.labels)
        assert read.pool == pool
        assert read.unlabelled.tolist() == split.unlabelled.tolist()

    @pytest.mark.parametrize("value", ["some", None, ["all"]])
    def test_an_unknown_pool_is_damage(self, value: object) -> None:
        written = json.loads(self.split("all", validation="none").to_json()) | {"pool": value}
        with pytest.raises(UserError, match=r"the saved split is damaged \(unknown pool"):
            Split.from_json(json.dumps(written), self.labels)


@st.composite
def problems(draw: st.DrawFn) -> tuple[torch.Tensor, DataConfig, int]:
    """Draw labels with at least four per class, some of them unknown, and a configuration that they allow."""
    classes = draw(st.integers(2, 6))
    counts = [draw(st.integers(4, 30)) for _ in range(classes)]
    labels = [k for k, n in enumerate(counts) for _ in range(n)] + [-1] * draw(st.integers(0, 20))
    labels = draw(st.permutations(labels))
    kind = draw(st.sampled_from(["labels", "labels_per_class", "all"]))
    amount = {
        "labels": {"num_labels": draw(st.integers(classes, 4 * classes))},
        "labels_per_class": {"labels_per_class": draw(st.integers(1, 4))},
        "all": {},
    }[kind]
    _, spare = count_labels(torch.tensor(labels), DataConfig(**amount), 0, tuple("abcdef")[:classes])
    can_hold_out = spare > 0 and len(labels) >= 10
    config = DataConfig(
        **amount,
        validation=draw(st.sampled_from(["train", "none"] if can_hold_out else ["none"])),
        validation_size=draw(st.integers(1, 12)),
        pool=draw(st.sampled_from(["all", "unlabelled"])),
    )
    return torch.tensor(labels), config, draw(st.integers(0, 2**31))


@settings(max_examples=150, deadline=None)
@given(problems())
def test_properties_of_every_split(problem: tuple[torch.Tensor, DataConfig, int]) -> None:
    labels, config, seed = problem
    if config.pool == "unlabelled":
        labels = torch.cat([labels, torch.tensor([-1])])  # with every label in use, the pool needs another image
    split = make_split(labels, config, seed)
    everything, validation = set(range(len(labels))), set(split.validation.tolist())
    labelled = set(split.labelled.tolist())
    assert not labelled & validation
    pool = everything - validation - (labelled if config.pool == "unlabelled" else set())
    assert set(split.unlabelled.tolist()) == pool
    assert split.num_without_label == len(pool - labelled)
    assert (labels[split.labelled] >= 0).all()
    assert (labels[split.validation] >= 0).all()
    assert len(labelled) == len(split.labelled)  # no image twice
    assert set(labels[split.labelled].tolist()) == set(range(int(labels.max()) + 1))
    assert len(validation) <= config.validation_size
    for part in (split.labelled, split.unlabelled, split.validation):
        assert part.dtype == np.int64
        assert (np.diff(part) > 0).all()
    again = make_split(labels, config, seed)
    assert again.to_json() == split.to_json()
    read = Split.from_json(split.to_json(), labels)
    assert read.pool == split.pool
    assert all(
        np.array_equal(getattr(read, name), getattr(split, name)) for name in ("labelled", "unlabelled", "validation")
    )


@settings(max_examples=60, deadline=None)
@given(problems())
def test_one_extra_label_is_given_to_one_class(problem: tuple[torch.Tensor, DataConfig, int]) -> None:
    labels, _, seed = problem
    classes = int(labels.max()) + 1
    config = DataConfig(num_labels=2 * classes + 1, validation="none")
    counts = per_class(make_split(labels, config, seed).labelled, labels, classes)
    assert sorted(counts) == [2] * (classes - 1) + [3]


class TestSavedForm:
    split = make_split(BALANCED, DataConfig(labels_per_class=4, validation="train"), seed=0)

    def test_one_changed_label_is_noticed(self) -> None:
        changed = BALANCED.clone()
        changed[7] = -1
        with pytest.raises(UserError, match="are not those this split was made for"):
            Split.from_json(self.split.to_json(), changed)

    def test_a_missing_image_is_noticed(self) -> None:
        with pytest.raises(UserError, match=r"\(199 images\) are not those .* \(200 images\)"):
            Split.from_json(self.split.to_json(), BALANCED[:-1])

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "[]",
            "{}",
            "1",
            '"x"',
            "[" * 100_000,
            '{"labelled": "x", "validation": []}',
            '{"labelled": [0.5], "validation": []}',
            '{"labelled": [true], "validation": []}',
            '{"labelled": [1180591620717411303424], "validation": []}',
        ],
        ids=lambda text: text[:40],
    )
    def test_a_damaged_file_gives_one_sentence(self, text: str) -> None:
        with pytest.raises(UserError, match="the saved split is damaged"):
            Split.from_json(text, BALANCED)

    @pytest.mark.parametrize("index", [-1, 200])
    def test_images_that_do_not_exist(self, index: int) -> None:
        values = json.loads(self.split.to_json())
        values["validation"][0] = index
        with pytest.raises(UserError, match="refers to images that do not exist"):
            Split.from_json(json.dumps(values), BALANCED)

    def test_the_images_of_the_pool_are_not_written(self) -> None:
        keys = {"train_images", "labels_sha256", "labelled", "validation", "pool"}
        assert set(json.loads(self.split.to_json())) == keys
