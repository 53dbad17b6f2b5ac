"""The losses of SemCo and SemCo+ and their sum against a slow loop over samples, written from the paper's equations."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import pytest
import torch
from torch import Tensor

from semco.config import Config, MethodConfig
from semco.errors import UserError
from semco.methods import Method, build_method
from semco.methods.semco import SemCo, SemCoConfig
from semco.pseudo_labels import solve_scale
from semco.types import Batch, EveryImage, Outputs, Progress, StepResult, Task, Views

Make = Callable[..., "object"]
K, D, B, U = 5, 4, 3, 30


class Identity:
    """A `Forward` whose network returns its input: images are already outputs, logits then embedding."""

    def __call__(self, *, no_grad: Mapping[str, Tensor] | None = None, **views: Tensor) -> dict[str, Outputs]:
        everything = {**views, **{name: view.detach() for name, view in (no_grad or {}).items()}}
        return {
            name: Outputs(features=view, logits=view[:, :K], embedding=view[:, K:]) for name, view in everything.items()
        }

    def begin(self, *, no_grad: Mapping[str, Tensor], **views: Tensor) -> EveryImage:
        return EveryImage(self(no_grad=no_grad, **views))


def task() -> Task:
    generator = torch.Generator().manual_seed(0)
    embeddings = torch.nn.functional.normalize(torch.randn(K, D, generator=generator), dim=-1)
    return Task(tuple("abcde"), embeddings, torch.tensor([0, 0, 1, 2, 2]), torch.ones(K).long(), U)


def batch() -> Batch:
    """Outputs around confident predictions that often agree, so that every mask has zeros and ones."""
    generator = torch.Generator().manual_seed(3)

    def outputs(count: int) -> Tensor:
        return torch.randn(count, K + D, generator=generator)

    weak = outputs(U)
    chosen = torch.randint(K, (U,), generator=generator)
    weak[: U // 2, K:] += 5 * task().label_vectors[chosen][: U // 2]
    weak[U // 4 : U * 3 // 4, :K] += 9 * torch.eye(K)[chosen.roll(1)][U // 4 : U * 3 // 4]
    weak[: U // 3, :K] += 9 * torch.eye(K)[chosen][: U // 3]
    labels = torch.tensor([0, 4, 2])
    return Batch(labels, Views((outputs(B),)), Views((weak,), (outputs(U),)), torch.arange(B), torch.arange(U))


def run(example: Batch, config: MethodConfig) -> StepResult:
    """Take one step."""
    return build_method(config, task()).compute(example, Identity(), Progress(0, 1, 1, torch.Generator()))


def make(name: str, **fields: object) -> MethodConfig:
    """A configuration of SemCo+ has fixed thresholds here, which are the simplest to follow."""
    fixed = {"thresholds": {"rule": "fixed", "tau_e": 0.6}} if name == "semco_plus" else {}
    return Method.registry[name].Config(**{**fixed, **fields})


def cosine(a: list[float], b: list[float]) -> float:
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    return dot / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def softmax(z: list[float]) -> list[float]:
    exps = [math.exp(x) for x in z]
    return [e / sum(exps) for e in exps]


def argmax(values: list[float]) -> int:
    return max(range(len(values)), key=values.__getitem__)


def slow(example: Batch, name: str, config: object, scale: float | None) -> dict[str, float]:
    """Equations 3 to 8, one sample at a time, in plain Python; no scale means the authors' released code."""
    get = lambda field, default: getattr(config, field, default)  # noqa: E731
    thresholds = get("thresholds", config)
    joint, soft = get("scoring", "paper") == "joint", get("cotraining_target", "label") == "distribution"
    M, groups = task().label_vectors.tolist(), task().group_ids.tolist()
    names = ["sup_sc", "sup_oh", "u_sc", "u_oh", "co_sc", "co_oh", "eta_sc", "eta_oh", "both"]
    sums = dict.fromkeys(names, 0.0)
    for x, y in zip(example.labelled.weak[0].tolist(), example.class_ids.tolist(), strict=True):
        sums["sup_sc"] += 1 - cosine(M[y], x[K:])  # Eq. 3
        sums["sup_oh"] += -math.log(softmax(x[:K])[y])  # Eq. 6
    for weak, strong in zip(example.unlabelled.weak[0].tolist(), example.unlabelled.strong[0].tolist(), strict=True):
        cosines = [cosine(row, weak[K:]) for row in M]
        p = softmax([(scale or 1.0) * c for c in cosines])
        one_hot = softmax(weak[:K])
        if joint:
            p = [(a + b) / 2 for a, b in zip(p, one_hot, strict=True)]
        members = [[k for k in range(K) if groups[k] == g] for g in range(3)]
        if name == "semco_reference":
            g = [sum(cosines[k] for k in ks) / len(ks) for ks in members]
        else:
            g = [sum(p[k] for k in ks) for ks in members]
        inside = members[argmax(g)]
        eta_sc = float(max(g) >= thresholds.tau_e)  # type: ignore[attr-defined]  # Eq. 4
        mass = sum(p[k] for k in inside)
        target = [sum(p[k] / mass * M[k][i] for k in inside) for i in range(D)]
        is_paper = not joint and name != "semco_reference"
        label_sc = argmax(p) if is_paper else max(inside, key=p.__getitem__)
        label_oh = argmax(one_hot)
        eta_oh = float(max(one_hot) >= thresholds.tau_o)  # type: ignore[attr-defined]
        clash = eta_sc * eta_oh * (label_sc != label_oh)
        keep = 0.0 if clash and get("on_disagreement", "both") == "discard" else 1.0
        log_strong = [math.log(v) for v in softmax(strong[:K])]
        sums["u_sc"] += (1 - cosine(target, strong[K:])) * eta_sc  # Eq. 5
        sums["u_oh"] += -log_strong[label_oh] * eta_oh  # Eq. 7
        sums["co_sc"] += (1 - cosine(M[label_oh], strong[K:])) * eta_oh * keep  # Eq. 8, first line
        taught = {k: p[k] / mass for k in inside} if soft else {label_sc: 1.0}
        sums["co_oh"] += -sum(q * log_strong[k] for k, q in taught.items()) * eta_sc * keep  # Eq. 8, second line
        sums["eta_sc"] += eta_sc
        sums["eta_oh"] += eta_oh
        sums["both"] += clash
    return {name: value / (B if name.startswith("sup") else U) for name, value in sums.items()}


CASES: list[tuple[str, dict[str, object]]] = [
    ("semco", {"scale": 4.0}),
    ("semco", {"scale": "solved"}),
    ("semco", {"scale": 4.0, "on_disagreement": "discard"}),
    ("semco", {"scale": 4.0, "lambda_u": 0.5, "lambda_co": 0.25, "tau_e": 0.8, "tau_o": 0.9}),
    ("semco", {"scale": 4.0, "semantic_weight": 2.0}),
    ("semco", {"scale": 4.0, "lambda_co": 0.0}),
    ("semco_reference", {"tau_e": 0.5}),
    ("semco_reference", {"tau_e": 0.5, "on_disagreement": "discard"}),
    ("semco_plus", {}),
    ("semco_plus", {"thresholds": {"rule": "fixed", "tau_e": 0.6, "tau_o": 0.8}}),
    ("semco_plus", {"cotraining_target": "label"}),
    ("semco_plus", {"scoring": "paper", "scale": 4.0, "perfect_score": 0.9}),
    ("semco_plus", {"scoring": "paper", "scale": 4.0, "cotraining_target": "label"}),
]


@pytest.mark.parametrize(("name", "fields"), CASES, ids=str)
def test_losses_against_the_slow_loop(name: str, fields: dict[str, object]) -> None:
    config = make(name, **fields)
    solved = solve_scale(task().label_vectors, task().group_ids, config.perfect_score, "abcde")  # type: ignore[attr-defined]
    scale = solved if config.scale == "solved" else config.scale  # type: ignore[attr-defined]
    example = batch()
    s = slow(example, name, config, None if name == "semco_reference" else scale)
    result = run(example, config)
    # The example tests something: samples of every kind, disagreement among them.
    assert 0.1 < s["eta_sc"] < 0.95
    assert 0.1 < s["eta_oh"] < 0.95
    assert s["both"] > 0
    expected = {
        "supervised_semantic": s["sup_sc"],
        "unlabelled_semantic": s["u_sc"],
        "supervised_one_hot": s["sup_oh"],
        "unlabelled_one_hot": s["u_oh"],
        "cotraining_semantic": s["co_sc"],
        "cotraining_one_hot": s["co_oh"],
    }
    assert {name: float(loss) for name, loss in result.losses.items()} == pytest.approx(expected, rel=1e-4)
    w, lambda_u, lambda_co = config.semantic_weight, config.lambda_u, config.lambda_co  # type: ignore[attr-defined]
    total = s["sup_oh"] + w * s["sup_sc"]
    total += lambda_u * (s["u_oh"] + w * s["u_sc"])
    total += lambda_co * (w * s["co_sc"] + s["co_oh"])  # Eq. 9
    assert float(result.total) == pytest.approx(total, rel=1e-4)
    metrics = {"mask_one_hot": s["eta_oh"], "mask_semantic": s["eta_sc"], "disagreement": s["both"]}
    assert {name: float(value) for name, value in result.metrics.items()} == pytest.approx(metrics, abs=1e-6)


def test_total_by_hand() -> None:
    """Two classes, one labelled and one unlabelled image; every number below is worked out on paper."""
    two = Task(("a", "b"), torch.eye(2), torch.arange(2), torch.ones(2).long(), 1)
    method = SemCo(SemCoConfig(scale=math.log(9.0)), two)

    class Two(Identity):
        def __call__(self, *, no_grad: Mapping[str, Tensor] | None = None, **views: Tensor) -> dict[str, Outputs]:
            return {
                name: Outputs(features=v, logits=v[:, :2], embedding=v[:, 2:])
                for name, v in {**views, **(no_grad or {})}.items()
            }

    labelled = torch.tensor([[0.0, 0.0, 3.0, 4.0]])  # label a: H = log 2, C = 1 - 3/5
    weak = torch.tensor([[math.log(99.0), 0.0, 0.0, 2.0]])  # one-hot: a at .99; semantic: b at 9 / 10
    strong = torch.tensor([[0.0, math.log(3.0), 4.0, 3.0]])  # softmax 1/4, 3/4; cosines 4/5, 3/5
    example = Batch(torch.tensor([0]), Views((labelled,)), Views((weak,), (strong,)), torch.arange(1), torch.arange(1))
    result = method.compute(example, Two(), Progress(0, 1, 1, torch.Generator()))
    losses = {name: float(loss) for name, loss in result.losses.items()}
    # The semantic target: group b is {b}, so its embedding, at cosine 3/5 from the strong view.
    assert losses == pytest.approx(
        {
            "supervised_semantic": 0.4,
            "unlabelled_semantic": 0.4,
            "supervised_one_hot": math.log(2),
            "unlabelled_one_hot": math.log(4),
            "cotraining_semantic": 0.2,
            "cotraining_one_hot": math.log(4 / 3),
        },
        rel=1e-5,
    )
    expected = math.log(2) + 3 * 0.4 + math.log(4) + 3 * 0.4 + 3 * 0.2 + math.log(4 / 3)
    assert float(result.total) == pytest.approx(expected, rel=1e-5)
    assert float(result.metrics["disagreement"]) == 1.0


@pytest.mark.parametrize("name", ["semco", "semco_reference", "semco_plus"])
def test_no_gradient_through_pseudo_labels(name: str) -> None:
    """Even a forward that forgot to detach the weak view would send no gradient into it."""
    example = batch()
    weak, strong = example.unlabelled.weak[0].requires_grad_(), example.unlabelled.strong[0].requires_grad_()

    class Careless(Identity):
        def __call__(self, *, no_grad: Mapping[str, Tensor] | None = None, **views: Tensor) -> dict[str, Outputs]:
            return super().__call__(**views, **(no_grad or {}))

    method = build_method(make(name), task())
    method.compute(example, Careless(), Progress(0, 1, 1, torch.Generator())).total.backward()
    assert weak.grad is None
    assert strong.grad is not None
    assert float(strong.grad.abs().sum()) > 0


@pytest.mark.parametrize("name", ["semco", "semco_reference", "semco_plus"])
def test_nothing_retained_is_supervised_training(name: str) -> None:
    example = batch()
    quiet = Batch(
        example.class_ids,
        example.labelled,
        Views((torch.zeros(U, K + D),), example.unlabelled.strong),
        example.labelled_index,
        example.unlabelled_index,
    )
    result = run(quiet, make(name))
    silent = [name for name in result.losses if not name.startswith("supervised")]
    assert [float(result.losses[name]) for name in silent] == [0.0] * 4
    supervised = result.losses["supervised_one_hot"] + 3 * result.losses["supervised_semantic"]
    assert float(result.total) == pytest.approx(float(supervised))


def test_the_scale_is_solved_on_the_task() -> None:
    expected = solve_scale(task().label_vectors, task().group_ids, 0.8, "abcde")
    for name in ("semco", "semco_plus"):
        assert build_method(make(name, perfect_score=0.8), task()).scale == pytest.approx(expected)
    # The released code does not scale in training; at inference it has a factor by the number of groups.
    assert build_method(make("semco_reference"), task()).scale == 6.0


@pytest.mark.parametrize(
    ("name", "field", "value", "sentence"),
    [
        ("semco", "scale", -1, r"config method\.scale = -1: input should be greater than 0\."),
        ("semco", "tau_e", 1.5, r"config method\.tau_e = 1\.5: input should be less than or equal to 1\."),
        ("semco_plus", "scoring", "papre", r"config method\.scoring = 'papre': input should be 'joint' or 'paper'\."),
        ("semco", "perfect_score", 1, r"config method\.perfect_score = 1: input should be less than 1\."),
        ("semco", "scoring", "joint", r"unknown config key 'method\.scoring'\. Known keys of method: lambda_co"),
    ],
)
def test_bad_fields(name: str, field: str, value: object, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        Config.parse({"method": {"name": name, field: value}})


def adaptive(**fields: object) -> MethodConfig:
    return make("semco_plus", thresholds={"rule": "freematch", **fields})


def test_pseudo_labels_are_weighted_by_the_mean_confidence() -> None:
    """The square of FreeMatch's mean confidence: half of it 1/K, from before the first step, half from the batch."""
    example = batch()
    full = run(example, adaptive(warmup=False, decay=0.5, weight="one"))
    ours = run(example, adaptive(warmup=False, decay=0.5))
    heads = Identity()(weak=example.unlabelled.weak[0])["weak"]
    mean = sum(max(softmax(row)) for row in heads.logits.tolist())
    factor = ((1 / heads.logits.shape[1] + mean / len(heads.logits)) / 2) ** 2
    assert 0.1 < factor < 0.9
    for name, loss in full.losses.items():
        is_weighted = name.startswith(("unlabelled", "cotraining"))
        assert float(ours.losses[name]) == pytest.approx(float(loss) * (factor if is_weighted else 1.0), rel=1e-4)
    assert float(ours.losses["cotraining_one_hot"]) > 0
    assert ours.metrics == full.metrics  # the retained fraction does not include the factor
    for head in ("one_hot", "semantic"):
        assert torch.equal(ours.pseudo_labels[head].weights, full.pseudo_labels[head].weights)


def test_semco_has_the_values_of_the_paper() -> None:
    """Table of hyper-parameters in the supplement, and the factor of 3 in the text below it."""
    config = SemCoConfig()
    assert (config.lambda_u, config.lambda_co, config.tau_e, config.tau_o) == (1.0, 1.0, 0.7, 0.95)
    assert (config.semantic_weight, config.on_disagreement, config.perfect_score) == (3.0, "both", 0.9)
    assert not config.centres_label_vectors


def test_semco_plus_departs_in_named_fields() -> None:
    config = make("semco_plus", thresholds="freematch")
    assert (config.scoring, config.perfect_score, config.cotraining_target) == ("joint", 0.97, "distribution")  # type: ignore[attr-defined]
    assert (config.thresholds.rule, config.thresholds.weight) == ("freematch", "confidence")  # type: ignore[attr-defined]
    assert config.centres_label_vectors
    assert not make("semco_plus", vectors="as_given").centres_label_vectors


def test_semco_plus_switched_back_is_semco() -> None:
    """With every departure at the paper's value, both methods have the same losses."""
    back = {"rule": "fixed", "tau_e": 0.7, "tau_o": 0.95}
    fields = {"thresholds": back, "scoring": "paper", "perfect_score": 0.9, "cotraining_target": "label"}
    paper, ours = run(batch(), make("semco")), run(batch(), make("semco_plus", **fields))
    assert paper.losses.keys() == ours.losses.keys()
    assert all(torch.equal(paper.losses[name], ours.losses[name]) for name in paper.losses)
    assert paper.weights == ours.weights
