"""SemCo as a scikit-learn classifier of images.

Shapes: N images, H and W pixels, C channels (1 or 3), K classes.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from semco.config import Config, configure
from semco.config.layers import merge_layer
from semco.data.datasets import Dataset, check_class_names, resize_images
from semco.data.decode import DECODE_ERRORS, decode, default_image_size, reason_of
from semco.data.listing import UNLABELLED
from semco.errors import UserError, brief
from semco.evaluation.model_file import load_model, save_model
from semco.evaluation.probabilities import Head
from semco.experiment import train
from semco.experiment.loading import native_size
from semco.files import read_json_object, write_json
from semco.methods import Method
from semco.predict.engine import TorchEngine
from semco.predict.predictor import Predictor, as_paths, map_ahead
from semco.run.result import RunResult

# The file that holds what a saved estimator has besides its model.
ESTIMATOR_FILE = "estimator.json"
# Files that are decoded ahead of the one that is looked at.
FILES_AHEAD = 256
# Sources of label vectors that know the classes by their order; the others look their names up.
ORDERED_SOURCES = ("attributes", "matrix")


class SemCoClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Train on images, as arrays or as paths of files; images without a label have the label -1.

    The default method is ``semco_plus``, SemCo+ (ours); ``method="semco"`` is the paper's method.

    Args:
        class_names: Names of the classes in sorted order of their labels; None if ``y`` holds the names themselves.
            The label vectors come from these names, so labels that are numbers need them, except for methods without a
            semantic head, such as ``fixmatch``.
        method: As in ``semco train``, and so are ``backbone``, ``steps``, ``batch_size`` and ``mu``.
        backbone: The network.
        steps: Length of the run.
        batch_size: Labelled images per step.
        mu: Unlabelled images per labelled image.
        head: The head that predicts: ``one_hot``, ``semantic`` or ``average``.
        settings: Any other configuration values, by section, for example ``{"method": {"lambda_co": 0.5}}``.
        random_state: Seed of the initial weights and the views.
        out: A new folder for the run and its report; None keeps nothing on the disk.

    Attributes:
        classes_: (K,) the sorted labels.
        model_: The trained `SavedModel`.
        result_: The `RunResult` of the run.
        n_features_in_: Number of values in an image.
        image_shape_: Its shape (C, H, W).

    A fitted estimator is saved by `save` and read by `load` (safetensors and JSON), or by joblib, which unpickles.

    scikit-learn's common checks use tables of features. Images are not tables, so only the checks that do not fit an
    estimator apply (parameters, cloning, representation, errors before fitting). ``docs/python.md`` lists them.

    Examples:
        >>> images = np.random.default_rng(0).integers(0, 256, (40, 8, 8), np.uint8)
        >>> labels = np.array([0, 1, 0, 1] + 36 * [-1])
        >>> classifier = semco.SemCoClassifier(["cat", "dog"], backbone="wrn-10-1", steps=2, batch_size=4)
        >>> classifier.fit(images, labels).predict_proba(images[:3]).shape
        (3, 2)
    """

    def __init__(
        self,
        class_names: Sequence[str] | None = None,
        *,
        method: str = "semco_plus",
        backbone: str = "wrn-10-2",
        steps: int = 1000,
        batch_size: int = 64,
        mu: int = 3,
        head: Head = "one_hot",
        settings: Mapping[str, Any] | None = None,
        random_state: int = 0,
        out: str | Path | None = None,
    ) -> None:
        self.class_names = class_names
        self.method = method
        self.backbone = backbone
        self.steps = steps
        self.batch_size = batch_size
        self.mu = mu
        self.head = head
        self.settings = settings
        self.random_state = random_state
        self.out = out

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Fit images with labels (N,), -1 for unlabelled images.

        ``X``: images (N, H, W) or (N, H, W, C) uint8, or N paths of image files, which are made square.
        """
        config = self._config()
        paths = as_paths(X)
        images = as_images(X) if paths is None else _read_files(paths, config)
        coded = torch.from_numpy(self._encode(_as_labels(y), len(images)))
        self._check_names(config)
        names = self._names()
        self.n_features_in_ = int(images[0].numel())
        self.image_shape_ = tuple(images.shape[1:])
        self.reads_files_ = paths is not None
        files = None if paths is None else tuple(map(str, paths))
        dataset = Dataset("arrays", images, coded, names, train_paths=files)
        with tempfile.TemporaryDirectory(prefix="semco-") as folder:
            run = Path(self.out) if self.out is not None else Path(folder) / "run"
            self.result_ = train(config, run, dataset=dataset)
            self.model_ = load_model(run / "model")
        return self

    def _encode(self, labels: NDArray[Any], count: int) -> NDArray[np.int64]:
        """Set ``classes_`` and return the labels of ``count`` images as positions in it, -1 for unlabelled images."""
        if labels.shape != (count,):
            raise UserError(f"y must hold one label per image, shape ({count},), not {labels.shape}.")
        known = _is_known(labels)
        self.classes_, numbers = np.unique(labels[known], return_inverse=True)
        if len(self.classes_) < 2:
            raise UserError(f"y must hold labels of at least two classes, not {len(self.classes_)}; -1 is unlabelled.")
        coded = np.full(count, UNLABELLED, dtype=np.int64)
        coded[known] = numbers
        return coded

    def predict_proba(self, X: Any) -> NDArray[np.float32]:
        """Return probabilities (N, K), columns in the order of ``classes_``; ``X`` as in `fit`."""
        check_is_fitted(self, "model_")
        predictor = Predictor(TorchEngine(self.model_, self.head))
        if as_paths(X) is not None:
            return predictor.predict_proba(X)
        images = as_images(X)
        if tuple(images.shape[1:]) != self.image_shape_ and not self.reads_files_:
            wanted = (*self.image_shape_[1:], self.image_shape_[0])
            height_width_channels = (*images.shape[2:], images.shape[1])
            raise UserError(f"images have size {height_width_channels}, but the model was trained on {wanted}.")
        about = self.model_.description
        if tuple(images.shape[2:]) != about.image_size:  # a pretrained backbone has a size of its own
            images = resize_images(images, about.image_size[0])
        return predictor.predict_proba(images.permute(0, 2, 3, 1).numpy())

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return labels (N,) of the kind that was given to `fit`."""
        best = self.predict_proba(X).argmax(axis=1)
        labels: NDArray[Any] = self.classes_[best]
        return labels

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy on the images that have a label; those labelled -1 are left out."""
        labels = _as_labels(y)
        known = np.flatnonzero(_is_known(labels))
        if len(known) == 0:
            raise UserError("y holds no label to score against: all of them are -1.")
        weights = None if sample_weight is None else np.asarray(sample_weight)[known]
        paths = as_paths(X)
        chosen = np.asarray(X)[known] if paths is None else [paths[i] for i in known]
        return float(super().score(chosen, labels[known], weights))

    def save(self, folder: str | Path) -> None:
        """Write the fitted estimator into a folder: the model as safetensors, everything else as JSON."""
        check_is_fitted(self, "model_")
        folder = Path(folder)
        save_model(folder, self.model_)
        parameters = {name: _plain(name, value) for name, value in self.get_params(deep=False).items()}
        values = {
            "parameters": parameters,
            "classes": self.classes_.tolist(),
            "image_shape": list(self.image_shape_),
            "reads_files": self.reads_files_,
            "result": self.result_.model_dump(mode="json"),
        }
        write_json(folder / ESTIMATOR_FILE, values)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Return the fitted estimator that `save` wrote into a folder."""
        file = Path(folder) / ESTIMATOR_FILE
        values = read_json_object(file)
        try:
            estimator = cls(**values["parameters"])
            estimator.classes_ = np.asarray(values["classes"])
            estimator.image_shape_ = tuple(values["image_shape"])
            estimator.reads_files_ = bool(values["reads_files"])
            estimator.result_ = RunResult.parse(values["result"], file)
        except (KeyError, TypeError) as error:
            raise UserError(f"{file} is not an estimator of this version ({error}); save it again.") from None
        estimator.n_features_in_ = int(np.prod(estimator.image_shape_))
        estimator.model_ = load_model(Path(folder))
        return estimator

    def _check_names(self, config: Config) -> None:
        """Refuse numbers as labels where the label vectors come from the names of the classes."""
        needs_names = "semantic" in Method.registry[self.method].heads and config.labels.source not in ORDERED_SOURCES
        if self.class_names is None and needs_names and self.classes_.dtype.kind not in "UO":
            shown = ", ".join(map(str, self.classes_[:4].tolist())) + (", ..." if len(self.classes_) > 4 else "")
            raise UserError(
                f"y holds numbers ({shown}), but method={self.method!r} learns from the names of the classes: pass "
                f"class_names with {len(self.classes_)} names in sorted order of the numbers, or names in y, or "
                "method='fixmatch', which needs none."
            )

    def _names(self) -> tuple[str, ...]:
        labels = tuple(str(label) for label in self.classes_)
        if self.class_names is None:
            return labels
        if isinstance(self.class_names, str):
            raise UserError(f"class_names is a list of names, not {self.class_names!r}.")
        if self.classes_.dtype.kind in "UO" and set(self.class_names) & set(labels):  # y holds the names
            if set(self.class_names) == set(labels):
                return labels
            odd = sorted(set(self.class_names) ^ set(labels))
            raise UserError(f"class_names and the names in y differ: {', '.join(map(repr, odd))} is in one only.")
        if len(self.class_names) != len(self.classes_):
            raise UserError(
                f"class_names has {len(self.class_names)} names, but y holds {len(self.classes_)} classes: "
                "give one name per class, in sorted order of the labels."
            )
        return check_class_names("class_names", self.class_names)

    def _config(self) -> Config:
        own = {
            "data": {"source": "arrays", "validation": "none"},
            "method": {"name": self.method},
            "model": {"backbone": self.backbone},
            "training": {
                "steps": self.steps,
                "batch_size": self.batch_size,
                "mu": self.mu,
                "seed": self.random_state,
            },
            "evaluation": {"head": self.head},
        }
        if not isinstance(self.settings, Mapping | None):
            raise UserError(
                f"settings are sections of the configuration, as in {{'training': {{'mu': 3}}}}, not {self.settings!r}."
            )
        return configure(options=merge_layer(own, dict(self.settings or {})))


def _as_labels(y: ArrayLike) -> NDArray[Any]:
    """Return labels as an array; bytes become text."""
    labels = np.asarray(y)
    return labels.astype(str) if labels.dtype.kind == "S" else labels


def _is_known(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which of the labels (N,) are known: neither -1 nor "-1"; a missing value is an error."""
    values = labels.tolist()
    missing = [label for label in values if label is None or label != label]  # nan differs from itself
    if missing:
        raise UserError(f"y holds {missing[0]}, which is not a label; use -1 for images without a label.")
    negative = [label for label in values if isinstance(label, int | float) and label < UNLABELLED]
    if negative:
        raise UserError(f"y holds {negative[0]}; labels must not be negative, except -1 for images without a label.")
    return np.array([label != UNLABELLED and label != str(UNLABELLED) for label in values], dtype=bool)


def _read_files(paths: Sequence[Path], config: Config) -> torch.Tensor:
    """Return image files as square images (N, 3, S, S); one that cannot be read is a `UserError`."""
    size = config.data.image_size or native_size(config) or default_image_size(paths)
    images = torch.empty((len(paths), 3, size, size), dtype=torch.uint8)

    def read(position: int) -> str | None:
        try:
            images[position] = torch.from_numpy(decode(paths[position], size).transpose(2, 0, 1).copy())
        except DECODE_ERRORS as error:
            return reason_of(error, paths[position])
        return None

    for position, error in map_ahead(read, range(len(paths)), FILES_AHEAD):
        if error is not None:
            raise UserError(f"image {paths[position]} cannot be read ({error}): repair it, or leave it out of X.")
    return images


def _plain(name: str, value: Any) -> Any:
    """Return the value of a parameter as JSON holds it."""
    if isinstance(value, Path):
        return str(value)
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError):
        raise UserError(f"{name}={brief(value)} cannot be saved as JSON; use plain lists and texts.") from None


def as_images(X: ArrayLike) -> torch.Tensor:
    """Return images (N, H, W) or (N, H, W, C) uint8 as a tensor (N, C, H, W)."""
    try:
        array = np.asarray(X)
    except ValueError:  # a list of images of several sizes
        raise UserError("X holds images that differ in size; resize them to one size, uint8 (N, H, W, C).") from None
    if array.ndim == 3:
        array = array[..., None]
    if array.ndim != 4 or array.shape[-1] not in (1, 3) or array.dtype != np.uint8 or len(array) == 0:
        raise UserError(
            f"X must be images of shape (N, H, W) or (N, H, W, 1 or 3) in uint8, not {array.dtype} {array.shape}."
        )
    return torch.from_numpy(np.ascontiguousarray(array.transpose(0, 3, 1, 2)))
