"""Semantic probe: a linear head on frozen features from few labels, a pool and the meaning of the classes.

It is what ``semco train`` uses on photos. Classes with similar label vectors get similar weights, and the unlabelled
photos refine them: each prediction for them should be confident, and all together diverse (mutual information).
docs/methods/semantic_probe.md has the equations; `solve` minimises the objective.

Shapes: N labelled photos, U photos of the pool, V views, F features, D axes, K classes, d embedding size.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from threadpoolctl import threadpool_limits
from torch import Tensor
from torch.nn.functional import normalize

from semco.config import MethodConfig
from semco.labels.embeddings import SAME
from semco.methods.base import FittedMethod, Photos
from semco.methods.imagenet_prior import features_of_rows, prior_mean, similar_classes
from semco.models import FeatureTransform, LinearHead
from semco.models.familiarity import fit_familiarity
from semco.models.pretrained import published_classifier
from semco.models.transform import root
from semco.types import Task

STEPS, RATE, ITERATIONS = 60, 0.04, 80
# Photos of the pool per step, and the weight of a batch in the running mean prediction if the pool is larger.
BATCH, MOMENTUM = 4096, 0.1
# The shares of the classes in the pool are estimated for at most this many classes (docs/lab/photos.md).
MOST_ESTIMATED = 10
# Parts of the labels that are left out in turn to measure how certain the estimate is, and the smallest share.
PARTS, LEAST_SHARE = 5, 1e-4
# Photos of the pool whose familiarity is so many standard deviations below that of the labelled ones are of no class
# (docs/lab/photos.md).
FAR = 4.0
# The logits of a head from class attributes are too small; found on tuning splits of birds (docs/lab/photos.md).
SHARPER = 1.1
# Photos whose features are read at a time. Axes with a smaller fraction of the variance are noise.
READ, NOISE = 1024, 1e-9

Floats = NDArray[np.float64]


class Prior(NamedTuple):
    """A Gaussian prior of the weights x A L' of the head: A has independent entries around a mean."""

    factor: Floats  # L (K, K)
    mean: Floats  # of A (D, K)

    @classmethod
    def of(cls, factor: Floats, weight: Floats) -> Prior:
        """Return the prior with this factor (K, K) whose mean gives these weights (D, K)."""
        return cls(factor, np.asarray(np.linalg.solve(factor, weight.T).T, dtype=np.float64))


class SemanticProbeConfig(MethodConfig):
    name: str = "semantic_probe"
    axes: int = Field(default=300, ge=1, le=4096)
    """Principal axes of the features that the head reads."""
    prior: float = Field(default=2.0, ge=0)
    """How much classes with similar label vectors share their weights: the covariance is I + prior S S'."""
    hedge: bool = True
    """Average the head with one fitted without label vectors, if these come from class names: a name may say little
    about how a class looks. With class attributes there is no second head."""
    classifier: bool = True
    """Shrink the head towards what the published ImageNet classifier of the backbone says about classes with similar
    names, and not towards 0. Only with published weights, and not with class attributes, which say more."""
    penalty: float = Field(default=0.05, gt=0)
    """Strength of the L2 penalty of the logistic regression."""
    close_up: bool = True
    """Use a close-up of each photo beside the plain view. Without it, the run takes half of the time."""
    sure: float = Field(default=0.2, ge=0)
    """Weight of the mean entropy of the predictions for the unlabelled photos, which is minimised."""
    diverse: float = Field(default=0.3, ge=0)
    """Weight of the entropy of their mean prediction, which is maximised."""

    @property
    def has_close_up(self) -> bool:
        return self.close_up


class SemanticProbe(FittedMethod[SemanticProbeConfig]):
    """Logistic regression whose class weights share a prior built from the label vectors, then mutual information."""

    name = "semantic_probe"
    title = "Semantic probe (ours)"
    Config = SemanticProbeConfig
    most_pool = STEPS * BATCH  # the steps read no more photos than this
    passes, most_read = 100, BATCH  # two heads, 60 steps, three products of a quarter of the features
    label_vectors: Tensor  # (K, d)

    def __init__(self, config: SemanticProbeConfig, task: Task) -> None:
        super().__init__(config, task)
        self.register_buffer("label_vectors", task.label_vectors.clone(), persistent=False)
        self._is_hedged = config.hedge and not task.has_attributes
        self._scale = SHARPER if task.has_attributes else 1.0
        is_named = config.classifier and not task.has_attributes
        self._names, self._published = task.class_names, task.published if is_named else ""

    def transform(self, photos: Photos) -> FeatureTransform:
        mean, axes = principal_axes(photos, self.config.axes)
        return FeatureTransform(mean, axes, has_close_up=self.config.close_up)

    def features(self, photos: Photos, transform: FeatureTransform | None) -> Tensor | None:
        return features_of_rows(photos, transform) if self._published and transform is not None else None

    def fit(self, x: Tensor, class_ids: Tensor, pool: Tensor, features: Tensor | None = None) -> LinearHead:
        x, class_ids, vectors = x.cpu(), class_ids.cpu(), self.label_vectors.cpu()
        pool = familiar_rows(x, class_ids, pool.cpu(), len(vectors))
        mean = np.zeros((x.shape[1], len(vectors)))
        if features is not None:
            classifier, similar = published_classifier(self._published), similar_classes(self._names)
            mean = prior_mean(features, classifier, similar, x, class_ids, pool).double().numpy()
        factors = [prior_factor(vectors, self.config.prior)]
        if self._is_hedged:
            factors.append(np.sqrt(1 + self.config.prior) * np.eye(len(vectors)))  # classes share nothing
        heads = [fit_with_prior(x, class_ids, pool, Prior.of(each, mean), self.config) for each in factors]
        # The mean of the logits of linear heads is a linear head.
        weight, bias = (sum(each) / len(heads) for each in zip(*((one.weight, one.bias) for one in heads), strict=True))
        return LinearHead(self._scale * weight, self._scale * bias)


def familiar_rows(x: Tensor, class_ids: Tensor, pool: Tensor, num_classes: int) -> Tensor:
    """Return the rows of the pool that may be of one of the classes.

    Mutual information would make the head sure of the others, and give each class its share of them. All are kept if a
    class has only one label: many of its photos look little like that one.
    """
    if torch.bincount(class_ids, minlength=num_classes).min() < 2:
        return pool
    familiarity, known = fit_familiarity(lambda position: x[position], class_ids, num_classes)
    least = known.mean() - FAR * known.std()
    return torch.cat([rows[familiarity(rows) >= least] for rows in pool.split(READ)])


def fit_with_prior(x: Tensor, class_ids: Tensor, pool: Tensor, prior: Prior, config: SemanticProbeConfig) -> LinearHead:
    """Return the head for labelled rows (N, D) of classes (N,) and a pool (U, D)."""
    rows, labels, classes = x.double().numpy(), class_ids.numpy(), len(prior.factor)
    with threadpool_limits(1):  # for matrices this small, threads wait for each other most of the time
        start = logistic_regression(rows, labels, prior, config.penalty)
        shares = np.full(classes, 1 / classes)
        # Without the only label of a class, a fit cannot tell how certain its share is.
        if classes <= MOST_ESTIMATED and len(pool) and np.bincount(labels, minlength=classes).min() > 1:
            # Evenly spaced: photos that lie side by side may be of the same class.
            some = pool[torch.linspace(0, len(pool) - 1, min(len(pool), BATCH)).round().long()]
            shares = pool_shares(rows, labels, some.double().numpy(), prior, start, config.penalty)
    return solve(x, class_ids, pool, prior, torch.from_numpy(shares).float(), start, config)


def pool_shares(
    x: Floats,
    class_ids: NDArray[np.int64],
    pool: Floats,
    prior: Prior,
    start: tuple[Floats, Floats],
    penalty: float,
) -> Floats:
    """Return the shares (K,) of the classes in the pool (U, D); the less certain they are, the closer to equal shares.

    Its variance comes from leaving out parts of the labels in turn (jackknife): the certainty is
    1 - variance / squared distance from equal shares, at least 0.
    """

    def estimate(head: tuple[Floats, Floats], labels: NDArray[np.int64]) -> Floats:
        logits = pool @ head[0] @ prior.factor.T + head[1]
        return shares_by_em(logits - label_offset(labels, len(prior.factor)))

    found = estimate(start, class_ids)
    part = np.empty(len(x), dtype=np.int64)
    part[np.argsort(class_ids, kind="stable")] = np.arange(len(x)) % PARTS
    kept = [part != number for number in range(PARTS)]
    fits = [(logistic_regression(x[rows], class_ids[rows], prior, penalty), rows) for rows in kept if rows.any()]
    others = np.stack([estimate(head, class_ids[rows]) for head, rows in fits])
    variance = (len(others) - 1) / len(others) * np.square(others - others.mean(axis=0)).sum()
    equal = 1 / len(prior.factor)
    certainty = max(0.0, 1 - variance / max(np.square(found - equal).sum(), 1e-12))
    shares: Floats = np.maximum(equal + certainty * (found - equal), LEAST_SHARE)
    shares /= shares.sum()
    return shares


def label_offset(class_ids: NDArray[np.int64], classes: int) -> Floats:
    """Return the logarithms (K,) of the shares of the classes among labels (N,), relative to equal shares.

    Logits of a fit to these labels minus the offset are those for equal shares. A class without a label counts as half
    a label.
    """
    counts = np.maximum(np.bincount(class_ids, minlength=classes), 0.5)
    offset: Floats = np.log(counts / counts.mean())
    return offset


def shares_by_em(logits: Floats, rounds: int = 100) -> Floats:
    """Return the class shares (K,) that make photos with these logits (U, K) most likely (Saerens et al. 2002).

    The logits are those for equal shares. With other shares, the probability of a class is multiplied by its share.
    """
    from scipy.special import softmax

    p = softmax(logits, axis=1)
    shares: Floats = np.full(logits.shape[1], 1 / logits.shape[1])
    for _ in range(rounds):
        weighted = p * shares
        shares = np.maximum((weighted / weighted.sum(axis=1, keepdims=True)).mean(axis=0), 1e-6)
        shares /= shares.sum()
    return shares


def principal_axes(photos: Photos, most: int) -> tuple[Tensor, Tensor]:
    """Return the mean (F,) of the roots of features and their first principal axes (F, D)."""
    from scipy.linalg import eigh

    total, products = torch.zeros(()), torch.zeros(())
    for position in torch.arange(len(photos)).split(READ):
        roots = root(photos.read(position)).cpu().double()
        total, products = total + roots.sum(dim=0), products + roots.T @ roots
    mean = total / len(photos)
    covariance = (products / len(photos) - torch.outer(mean, mean)).numpy()
    size = len(covariance)
    values, vectors = eigh(covariance, subset_by_index=[max(0, size - most), size - 1])
    kept = np.flatnonzero(values > NOISE * max(values[-1], NOISE))
    axes = vectors[:, kept[::-1] if len(kept) else [-1]]
    return mean.float(), torch.from_numpy(axes.copy()).float()


def prior_factor(label_vectors: Tensor, prior: float) -> Floats:
    """Return L (K, K) with L L' = I + prior S S', where S are the label vectors (K, d), centred, with unit rows."""
    offsets = label_vectors.double() - label_vectors.double().mean(dim=0)
    offsets[offsets.norm(dim=1) < SAME] = 0  # a class whose vector is the mean of all shares nothing
    s: Floats = normalize(offsets, dim=1).numpy()
    values, vectors = np.linalg.eigh(np.eye(len(s)) + prior * s @ s.T)
    factor: Floats = vectors * np.sqrt(values)
    return factor


def logistic_regression(x: Floats, class_ids: NDArray[np.int64], prior: Prior, penalty: float) -> tuple[Floats, Floats]:
    """Return A (D, K) and b (K,) that minimise the sum of CE(x A L' + b) + penalty / 2 |A - prior mean|²."""
    from scipy.optimize import minimize
    from scipy.special import log_softmax

    (factor, mean), size, classes = prior, x.shape[1], len(prior.factor)
    targets = np.eye(classes)[class_ids]

    def loss(values: Floats) -> tuple[float, Floats]:
        a, b = values[:-classes].reshape(size, classes), values[-classes:]
        log_p = log_softmax(x @ a @ factor.T + b, axis=1)
        errors = np.exp(log_p) - targets
        gradient = np.concatenate([(x.T @ errors @ factor + penalty * (a - mean)).ravel(), errors.sum(axis=0)])
        return float(-(targets * log_p).sum() + penalty / 2 * np.square(a - mean).sum()), gradient

    start = np.concatenate([mean.ravel(), np.zeros(classes)])
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": ITERATIONS}).x
    return found[:-classes].reshape(size, classes), found[-classes:]


@torch.no_grad()
def solve(
    x: Tensor,
    class_ids: Tensor,
    pool: Tensor,
    prior: Prior,
    shares: Tensor,
    start: tuple[Floats, Floats],
    config: SemanticProbeConfig,
) -> LinearHead:
    """Return the head after `STEPS` steps of Adam from a logistic regression A, b on

    mean CE + penalty / (2 N) |A - prior mean|² + sure mean H(p) + diverse KL(mean p || shares), where p are the
    predictions for the pool, whose classes have these shares (K,). The head itself predicts for equal shares. If the
    shares are equal, the last term is -diverse H(mean p), up to a constant.

    A pool (U, D) that is larger than `BATCH` is read in random batches, and mean p is a running mean.
    """
    a, b, factor, centre = (torch.from_numpy(each).float() for each in (*start, *prior))
    targets = torch.nn.functional.one_hot(class_ids, len(factor)).float()
    adam, generator = (Adam(a), Adam(b)), torch.Generator().manual_seed(0)
    offset = (len(shares) * shares).log()
    mean: Tensor | None = None
    for _ in range(STEPS if len(pool) else 0):
        is_whole = len(pool) <= BATCH
        rows = pool if is_whole else pool[torch.randint(len(pool), (BATCH,), generator=generator)]
        weight = a @ factor.T
        p = (rows @ weight + b + offset).softmax(dim=1)
        mean = p.mean(dim=0) if mean is None or is_whole else mean.lerp(p.mean(dim=0), MOMENTUM)
        labelled = ((x @ weight + b).softmax(dim=1) - targets) / len(x)
        errors = information_gradient(p, mean / shares, config.sure, config.diverse)
        a -= adam[0].step((x.T @ labelled + rows.T @ errors) @ factor + config.penalty / len(x) * (a - centre))
        b -= adam[1].step(labelled.sum(dim=0) + errors.sum(dim=0))
    return LinearHead((a @ factor.T).T.contiguous(), b)


def information_gradient(p: Tensor, ratio: Tensor, sure: float, diverse: float) -> Tensor:
    """Return the gradient (U, K) of sure mean H(p) + diverse KL(mean p || shares) by the logits of p (U, K).

    ``ratio`` is mean p / shares (K,).
    """
    value = diverse * (ratio + 1e-9).log() - sure * (p + 1e-12).log()  # of each unit of probability
    return p * (value - (p * value).sum(dim=1, keepdim=True)) / len(p)


class Adam:
    """Adam for one tensor. `torch.optim` would import torch's compiler, which takes more than a second."""

    def __init__(self, like: Tensor) -> None:
        self._first, self._second, self._count = torch.zeros_like(like), torch.zeros_like(like), 0

    def step(self, gradient: Tensor) -> Tensor:
        """Return the update to subtract from the tensor."""
        self._count += 1
        self._first.lerp_(gradient, 0.1)
        self._second.lerp_(gradient.square(), 0.001)
        first, second = self._first / (1 - 0.9**self._count), self._second / (1 - 0.999**self._count)
        return RATE * first / (second.sqrt() + 1e-8)
