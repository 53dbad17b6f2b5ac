"""SemCoClassifier keeps scikit-learn's conventions."""

from __future__ import annotations

import os
import pickle
import signal
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from PIL import Image
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.utils import estimator_checks

from semco import SemCoClassifier, UserError
from semco.training.loop import Trainer
from semco.training.signals import Interrupted, Stopped
from tests.conftest import CLASSES, tiny_images

pytestmark = pytest.mark.usefixtures("no_page")
# Of scikit-learn's common checks, those that feed no table of features (docs/python.md says why).
CHECKS = [
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_get_params_invariance",
    "check_set_params",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_valid_tag_types",
]


@pytest.mark.parametrize("check", CHECKS)
def test_scikit_learns_own_check(check: str) -> None:
    getattr(estimator_checks, check)("SemCoClassifier", SemCoClassifier())


@pytest.fixture(scope="module")
def partly_labelled() -> tuple[np.ndarray, np.ndarray]:
    images, labels = tiny_images(30, seed=3)
    hidden = labels.copy()
    hidden[np.arange(len(labels)) % 30 >= 5] = -1
    return images, hidden


def small(**more: Any) -> SemCoClassifier:
    plain = {"augment": {"flip": False, "pad": 0.0, "operations": 1, "cutout": 0.25}}
    return SemCoClassifier(backbone="wrn-10-1", steps=60, batch_size=8, mu=2, settings=plain, **more)


def test_it_learns_from_few_labels(partly_labelled: tuple[np.ndarray, np.ndarray]) -> None:
    model = small(class_names=CLASSES).fit(*partly_labelled)
    test_images, test_labels = tiny_images(10, seed=4)
    chances = model.predict_proba(test_images)
    assert chances.shape == (40, 4)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0, rtol=1e-5)
    assert (model.predict(test_images) == model.classes_[chances.argmax(axis=1)]).all()
    assert model.score(test_images, test_labels) > 0.8
    assert model.n_features_in_ == 64


@pytest.mark.usefixtures("page")
def test_labels_may_be_the_names(partly_labelled: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> None:
    images, numbers = partly_labelled
    names = np.array([CLASSES[n] if n >= 0 else "-1" for n in numbers])
    model = small(method="fixmatch", out=tmp_path / "run").set_params(steps=3).fit(images, names)
    assert set(model.classes_) == set(CLASSES)
    assert set(model.predict(images)) <= set(CLASSES)
    assert (tmp_path / "run" / "report.html").exists()


@pytest.mark.parametrize("kind", [object, "S", "U"])
def test_minus_one_is_no_class_however_names_are_stored(
    partly_labelled: tuple[np.ndarray, np.ndarray], kind: Any
) -> None:
    images, labels = partly_labelled
    names = np.array(["-1" if label < 0 else CLASSES[label] for label in labels]).astype(kind)
    model = small(method="supervised").set_params(steps=1).fit(images, names)
    assert model.classes_.tolist() == sorted(CLASSES)


def test_a_length_in_epochs_takes_the_place_of_steps(partly_labelled: tuple[np.ndarray, np.ndarray]) -> None:
    model = small(method="supervised", class_names=CLASSES)
    model.set_params(settings={**model.settings, "training": {"epochs": 1, "images_per_epoch": 16}})
    assert model.fit(*partly_labelled).result_.steps == 2


def test_nothing_before_fitting() -> None:
    with pytest.raises(NotFittedError):
        small().predict(np.zeros((1, 8, 8), np.uint8))


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (np.zeros((4, 8)), [0, 1, 0, 1], "must be images"),
        (np.zeros((4, 8, 8)), [0, 1, 0, 1], "uint8"),
        (np.zeros((4, 8, 8), np.uint8), [0, 1, 0], "one label per image"),
        (np.zeros((4, 8, 8), np.uint8), [0, 0, -1, -1], "at least two classes"),
        (np.zeros((4, 8, 8), np.uint8), [0, 1, 2, -1], "class_names has 2 names"),
        (np.zeros((4, 8, 8), np.uint8), [0, 1, float("nan"), -1], "y holds nan, which is not a label; use -1"),
        (np.zeros((4, 8, 8), np.uint8), ["a", "b", None, "-1"], "y holds None, which is not a label; use -1"),
    ],
)
def test_bad_input_is_refused(images: np.ndarray, labels: list[int], message: str) -> None:
    with pytest.raises(UserError, match=message):
        small(class_names=["dog", "cat"]).fit(images, labels)


def test_names_in_y_say_which_class_is_which(partly_labelled: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> None:
    """Whatever the order of ``class_names``: the saved model calls each class by the name it has in ``y``."""
    images, labels = partly_labelled
    named = np.where(labels == -1, "-1", np.where(labels == 0, "tabby", "dog"))
    model = small(class_names=["tabby", "dog"], out=tmp_path / "run").set_params(steps=3).fit(images, named)
    assert model.classes_.tolist() == ["dog", "tabby"]
    assert model.model_.description.class_names == ("dog", "tabby")


@pytest.mark.parametrize(
    ("names", "labels", "message"),
    [
        (["tabby", "dog"], ["tabby", "lion"] * 2, "names in y differ: 'dog', 'lion' is in one only"),
        ("tabby", ["tabby", "dog"] * 2, "class_names is a list of names, not 'tabby'"),
        (["tabby", "dog"], [0, 1, -2, -1], "y holds -2; labels must not be negative, except -1"),
    ],
)
def test_names_that_do_not_fit_are_refused(names: Any, labels: list[Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        small(class_names=names).fit(np.zeros((4, 8, 8), np.uint8), labels)


def test_images_of_several_sizes_are_refused() -> None:
    images = [np.zeros((8, 8), np.uint8), np.zeros((8, 9), np.uint8)]
    with pytest.raises(UserError, match="X holds images that differ in size"):
        small().fit(images, [0, 1])


def test_numbers_without_names_are_explained(partly_labelled: tuple[np.ndarray, np.ndarray]) -> None:
    with pytest.raises(UserError, match=r"y holds numbers \(0, 1, 2, 3\).*pass class_names with 4 names.*'fixmatch'"):
        small().fit(*partly_labelled)


@pytest.fixture(scope="module")
def fitted(partly_labelled: tuple[np.ndarray, np.ndarray]) -> SemCoClassifier:
    return small(class_names=CLASSES).set_params(steps=8).fit(*partly_labelled)


def test_a_clone_learns_the_same(fitted: SemCoClassifier, partly_labelled: tuple[np.ndarray, np.ndarray]) -> None:
    images, _ = tiny_images(10, seed=4)
    again = clone(fitted).fit(*partly_labelled)
    np.testing.assert_array_equal(again.predict_proba(images), fitted.predict_proba(images))


def test_the_score_leaves_out_images_without_a_label(fitted: SemCoClassifier) -> None:
    images, labels = tiny_images(5, seed=4)
    predicted = fitted.predict(images)
    hidden = labels.copy()
    hidden[::2] = -1
    assert fitted.score(images, hidden) == np.mean(predicted[1::2] == labels[1::2])
    assert fitted.score(images, predicted) == 1.0
    weights = np.where(predicted == labels, 3.0, 1.0)
    right = predicted == labels
    assert fitted.score(images, labels, weights) == pytest.approx(weights[right].sum() / weights.sum())
    with pytest.raises(UserError, match="no label to score against"):
        fitted.score(images, np.full(len(images), -1))


def test_saved_and_loaded_in_two_ways(fitted: SemCoClassifier, tmp_path: Path) -> None:
    images, _ = tiny_images(3, seed=5)
    fitted.save(tmp_path / "model")
    joblib.dump(fitted, tmp_path / "model.joblib")
    for again in (SemCoClassifier.load(tmp_path / "model"), joblib.load(tmp_path / "model.joblib")):
        np.testing.assert_array_equal(again.predict_proba(images), fitted.predict_proba(images))
        np.testing.assert_array_equal(again.predict(images), fitted.predict(images))
        assert again.get_params() == fitted.get_params() | {"class_names": again.class_names}
        assert again.n_features_in_ == 64
        assert again.result_ == fitted.result_
    (tmp_path / "model" / "estimator.json").write_text("{}")
    with pytest.raises(UserError, match=r"estimator\.json is not an estimator of this version"):
        SemCoClassifier.load(tmp_path / "model")


def test_a_grid_search_scores_labelled_images_only(partly_labelled: tuple[np.ndarray, np.ndarray]) -> None:
    images, labels = partly_labelled
    search = GridSearchCV(small(class_names=CLASSES, method="supervised"), {"steps": [1, 2]}, cv=2, refit=False)
    search.fit(images, labels)
    parts = list(StratifiedKFold(2).split(images, labels))
    for number, (train, test) in enumerate(parts):
        model = small(class_names=CLASSES, method="supervised").set_params(steps=2).fit(images[train], labels[train])
        known = test[labels[test] >= 0]
        assert search.cv_results_[f"split{number}_test_score"][1] == np.mean(
            model.predict(images[known]) == labels[known]
        )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_whole_search(
    partly_labelled: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """Other errors of a fit are recorded as NaN, and the next fit begins."""
    original, fits = Trainer._train, []

    def signalled(self: Trainer, *batch: Any) -> None:
        fits.append(self.run_folder.path)
        os.kill(os.getpid(), number)
        original(self, *batch)

    monkeypatch.setattr(Trainer, "_train", signalled)
    search = GridSearchCV(small(class_names=CLASSES, method="supervised"), {"steps": [2, 3]}, cv=2, refit=False)
    with pytest.raises(Stopped) as stopped:
        search.fit(*partly_labelled)
    assert len(set(fits)) == 1
    again = pickle.loads(pickle.dumps(stopped.value))  # as from one of scikit-learn's workers
    assert (type(again), str(again), again.exit_code) == (Interrupted, str(stopped.value), 128 + number)


def test_a_signal_after_the_last_step_is_not_lost(
    partly_labelled: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    original, fits = Trainer._save_if_due, []

    def signalled(self: Trainer) -> None:
        original(self)
        if self.state.step == 2:
            fits.append(self.run_folder.path)
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Trainer, "_save_if_due", signalled)
    search = GridSearchCV(small(class_names=CLASSES, method="supervised"), {"steps": [2]}, cv=2, refit=False)
    with pytest.raises(KeyboardInterrupt):
        search.fit(*partly_labelled)
    assert len(fits) == 1


def test_paths_instead_of_arrays(partly_labelled: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> None:
    images, labels = partly_labelled
    paths = [tmp_path / f"{number}.png" for number in range(len(images))]
    for image, path in zip(images, paths, strict=True):
        Image.fromarray(image).convert("RGB").save(path)
    model = small(class_names=CLASSES, method="supervised").set_params(steps=3).fit(list(map(str, paths)), labels)
    assert model.image_shape_ == (3, 8, 8)
    rgb = np.repeat(images[..., None], 3, axis=3)
    np.testing.assert_array_equal(model.predict_proba(paths), model.predict_proba(rgb))
    assert model.score(paths, np.where(np.arange(len(paths)) < 9, 0, -1)) == np.mean(model.predict(paths[:9]) == 0)
    (tmp_path / "0.png").write_bytes(b"no image")
    with pytest.raises(UserError, match=r"image .*0\.png cannot be read \(it is not an image in a known format\)"):
        model.fit(paths, labels)


def test_settings_are_sections() -> None:
    with pytest.raises(UserError, match=r"settings are sections of the configuration, .* not 'mu=3'"):
        SemCoClassifier(settings="mu=3").fit(np.zeros((4, 8, 8), np.uint8), [0, 1, 0, 1])


def test_names_are_told_apart() -> None:
    with pytest.raises(UserError, match="class_names has two classes named 'cat'"):
        small(class_names=["cat", "cat"]).fit(np.zeros((4, 8, 8), np.uint8), [0, 1, 0, 1])


def test_other_images_than_trained_on(partly_labelled: tuple[np.ndarray, np.ndarray]) -> None:
    model = small(class_names=CLASSES, method="supervised").set_params(steps=1).fit(*partly_labelled)
    with pytest.raises(UserError, match=r"\(9, 8, 1\).*\(8, 8, 1\)"):
        model.predict(np.zeros((1, 9, 8), np.uint8))


def test_images_are_resized_to_the_size_of_the_backbone(partly_labelled: tuple[np.ndarray, np.ndarray]) -> None:
    images, labels = partly_labelled
    fitted = small(class_names=CLASSES).set_params(steps=1, settings={"data": {"image_size": 24}}).fit(images, labels)
    assert fitted.model_.description.image_size == (24, 24)
    assert fitted.predict_proba(images[:2]).shape == (2, len(np.unique(labels[labels >= 0])))
