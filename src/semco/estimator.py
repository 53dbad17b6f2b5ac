"""SemCo as a scikit-learn classifier of images.

Shapes: N images, H and W pixels, C channels (1 or 3), K classes.
"""

from __future__ import annotations

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
from semco.data.arrays import check_class_names
from semco.data.datasets import UNLABELLED, Dataset, resize_images
from semco.errors import UserError
from semco.evaluation.model_file import load_model
from semco.evaluation.probabilities import Head, predict_probabilities
from semco.evaluation.results import image_batches
from semco.experiment import train


class SemCoClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Train on arrays of images; images without a label have the label -1.

    The default method is ``semco_plus``, SemCo+ (ours); ``method="semco"`` is the paper's method.

    Parameters
    ----------
    class_names : names of the classes in sorted order of their labels; None if ``y`` holds the names themselves.
        The label vectors come from these names, so numbers alone are enough only for methods without a semantic head.
    method, backbone, steps, batch_size, mu : as in ``semco train``.
    head : the head that predicts: ``one_hot``, ``semantic`` or ``average``.
    settings : any other configuration values, by section, for example ``{"method": {"lambda_co": 0.5}}``.
    random_state : seed of the initial weights and the views.
    out : a new folder for the run and its report; None keeps nothing on the disk.

    Attributes
    ----------
    classes_ : (K,) the sorted labels. model_ : the trained `SavedModel`. result_ : the `RunResult` of the run.
    n_features_in_ : number of values in an image.

    scikit-learn's common checks use tables of features. Images are not tables, so only the checks that do not fit an
    estimator apply (parameters, cloning, representation, errors before fitting). ``docs/python.md`` lists them.
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

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit images (N, H, W) or (N, H, W, C) uint8 with labels (N,), -1 for unlabelled images."""
        images, labels = as_images(X), np.asarray(y)
        if labels.dtype.kind == "S":
            labels = labels.astype(str)
        if labels.shape != (len(images),):
            raise UserError(f"y must hold one label per image, shape ({len(images)},), not {labels.shape}.")
        known = _is_known(labels)
        self.classes_, numbers = np.unique(labels[known], return_inverse=True)
        if len(self.classes_) < 2:
            raise UserError(f"y must hold labels of at least two classes, not {len(self.classes_)}; -1 is unlabelled.")
        coded = np.full(len(images), UNLABELLED)
        coded[known] = numbers
        names = self._names()
        self.n_features_in_ = int(images[0].numel())
        self.image_shape_ = tuple(images.shape[1:])
        dataset = Dataset("arrays", images, torch.from_numpy(coded), names)
        with tempfile.TemporaryDirectory(prefix="semco-") as folder:
            run = Path(self.out) if self.out is not None else Path(folder) / "run"
            self.result_ = train(self._config(), run, dataset=dataset)
            self.model_ = load_model(run / "model")
        return self

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float32]:
        """Return probabilities (N, K), columns in the order of ``classes_``."""
        check_is_fitted(self, "model_")
        about = self.model_.description
        images = as_images(X)
        if tuple(images.shape[1:]) != self.image_shape_:
            wanted = (*self.image_shape_[1:], self.image_shape_[0])
            height_width_channels = (*images.shape[2:], images.shape[1])
            raise UserError(f"images have size {height_width_channels}, but the model was trained on {wanted}.")
        if tuple(images.shape[2:]) != about.image_size:  # a pretrained backbone has a size of its own
            images = resize_images(images, about.image_size[0])
        batches = image_batches(images, about.mean, about.std)
        return predict_probabilities(self.model_.network, batches, self.model_.scorer(self.head))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return labels (N,) of the kind that was given to `fit`."""
        best = self.predict_proba(X).argmax(axis=1)
        labels: NDArray[Any] = self.classes_[best]
        return labels

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
