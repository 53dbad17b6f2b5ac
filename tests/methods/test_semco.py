"""SemCo's five losses and their sum against a slow loop over samples, written from the paper."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import pytest
import torch
from torch import Tensor

from semco.config import Config
from semco.errors import UserError
from semco.methods import build_method
from semco.methods.semco import SemCo, SemCoConfig
from semco.pseudo_labels import JointScoring, PaperScoring, ReferenceScoring, solve_scale
from semco.types import Batch, Outputs, Progress, StepResult, Task, Views

Make = Callable[..., "object"]
K, D, B, U = 5, 4, 3, 30


class Said:
    """A `Forward` whose network says what it is given: images are already outputs, logits then embedding."""

    def __call__(self, *, no_grad: Mapping[str, Tensor] | None = None, **views: Tensor) -> dict[str, Outputs]:
        everything = {**views, **{name: view.detach() for name, view in (no_grad or {}).items()}}
        return {
            name: Outputs(features=view, logits=view[:, :K], embedding=view[:, K:]) for name, view in everything.items()
        }


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
    weak[: U // 2, K:] += 5 * task().embeddings[chosen][: U // 2]
    weak[U // 4 : U * 3 // 4, :K] += 9 * torch.eye(K)[chosen.roll(1)][U // 4 : U * 3 // 4]
    weak[: U // 3, :K] += 9 * torch.eye(K)[chosen][: U // 3]
    labels = torch.tensor([0, 4, 2])
    return Batch(labels, Views((outputs(B),)), Views((weak,), (outputs(U),)), torch.arange(B), torch.arange(U))


def run(example: Batch, **fields: object) -> StepResult:
    """One step; with fixed thresholds, which are simplest to follow, unless others are given."""
    method = build_method(SemCoConfig(**{"thresholds": "fixed", **fields}), task())  # type: ignore[arg-type]
    return method.compute(example, Said(), Progress(0, 1, 1, torch.Generator()))


def cosine(a: list[float], b: list[float]) -> float:
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    return dot / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def softmax(z: list[float]) -> list[float]:
    exps = [math.exp(x) for x in z]
    return [e / sum(exps) for e in exps]


def argmax(values: list[float]) -> int:
    return max(range(len(values)), key=values.__getitem__)


def slow(example: Batch, config: SemCoConfig, scale: float | None) -> dict[str, float]:
    """Equations 3 to 9, one sample at a time, in plain Python; no scale means the authors' scoring."""
    joint = config.scoring == "joint"
    M, groups = task().embeddings.tolist(), task().groups.tolist()
    names = ["sup_sc", "sup_oh", "u_sc", "u_oh", "co_sc", "co_oh", "eta_sc", "eta_oh", "both"]
    sums = dict.fromkeys(names, 0.0)
    for x, y in zip(example.labelled.weak[0].tolist(), example.labels.tolist(), strict=True):
        sums["sup_sc"] += 1 - cosine(M[y], x[K:])  # Eq. 3
        sums["sup_oh"] += -math.log(softmax(x[:K])[y])  # Eq. 6
    for weak, strong in zip(example.unlabelled.weak[0].tolist(), example.unlabelled.strong[0].tolist(), strict=True):
        cosines = [cosine(row, weak[K:]) for row in M]
        p = softmax([(scale or 1.0) * c for c in cosines])
        one_hot = softmax(weak[:K])
        if joint:
            p = [(a + b) / 2 for a, b in zip(p, one_hot, strict=True)]
        members = [[k for k in range(K) if groups[k] == g] for g in range(3)]
        if scale is None:
            g = [sum(cosines[k] for k in ks) / len(ks) for ks in members]
        else:
            g = [sum(p[k] for k in ks) for ks in members]
        inside = members[argmax(g)]
        eta_sc = float(max(g) >= config.tau_e)  # Eq. 4
        mass = sum(p[k] for k in inside)
        target = [sum(p[k] / mass * M[k][i] for k in inside) for i in range(D)]
        label_sc = argmax(p) if scale is not None and not joint else max(inside, key=p.__getitem__)
        label_oh, eta_oh = argmax(one_hot), float(max(one_hot) >= config.tau_o)
        clash = eta_sc * eta_oh * (label_sc != label_oh)
        keep = 0.0 if clash and config.on_disagreement == "discard" else 1.0
        log_strong = [math.log(v) for v in softmax(strong[:K])]
        sums["u_sc"] += (1 - cosine(target, strong[K:])) * eta_sc  # Eq. 5
        sums["u_oh"] += -log_strong[label_oh] * eta_oh  # Eq. 7
        sums["co_sc"] += (1 - cosine(M[label_oh], strong[K:])) * eta_oh * keep  # Eq. 8, first line
        lesson = {label_sc: 1.0} if config.lesson == "label" else {k: p[k] / mass for k in inside}
        sums["co_oh"] += -sum(q * log_strong[k] for k, q in lesson.items()) * eta_sc * keep  # Eq. 8, second line
        sums["eta_sc"] += eta_sc
        sums["eta_oh"] += eta_oh
        sums["both"] += clash
    return {name: value / (B if name.startswith("sup") else U) for name, value in sums.items()}


CASES = [
    {"tau_e": 0.6},
    {"tau_e": 0.6, "tau_o": 0.8},
    {"tau_e": 0.6, "on_disagreement": "discard"},
    {"tau_e": 0.6, "lesson": "label"},
    {"scoring": "paper", "scale": 4.0, "lesson": "distribution"},
    {"scoring": "paper", "scale": 4.0},
    {"scoring": "paper", "scale": "auto"},
    {"scoring": "paper", "scale": 4.0, "on_disagreement": "discard"},
    {"scoring": "paper", "scale": 4.0, "lambda_u": 0.5, "lambda_co": 0.25, "tau_e": 0.8, "tau_o": 0.9},
    {"scoring": "paper", "scale": 4.0, "semantic_weight": 2.0},
    {"scoring": "reference", "tau_e": 0.5},
    {"scoring": "reference", "tau_e": 0.5, "on_disagreement": "discard"},
    {"scoring": "paper", "scale": 4.0, "lambda_co": 0.0},
]


@pytest.mark.parametrize("fields", CASES, ids=str)
def test_losses_against_the_slow_loop(fields: dict[str, object]) -> None:
    config = SemCoConfig(**fields)  # type: ignore[arg-type]
    solved = solve_scale(task().embeddings, task().groups, config.perfect_score, "abcde")
    scale = solved if config.scale == "auto" else config.scale
    example = batch()
    s = slow(example, config, None if config.scoring == "reference" else scale)
    result = run(example, **fields)
    # The example tests something: samples of every kind, disagreement among them.
    assert 0.1 < s["eta_sc"] < 0.95
    assert 0.1 < s["eta_oh"] < 0.95
    assert s["both"] > 0
    w = config.semantic_weight
    expected = {
        "supervised_one_hot": s["sup_oh"],
        "supervised_semantic": s["sup_sc"],
        "unlabelled_one_hot": s["u_oh"],
        "unlabelled_semantic": s["u_sc"],
        "cotraining": w * s["co_sc"] + s["co_oh"],
    }
    assert {name: float(loss) for name, loss in result.losses.items()} == pytest.approx(expected, rel=1e-4)
    total = s["sup_oh"] + w * s["sup_sc"]
    total += config.lambda_u * (s["u_oh"] + w * s["u_sc"])
    total += config.lambda_co * (w * s["co_sc"] + s["co_oh"])
    assert float(result.total) == pytest.approx(total, rel=1e-4)
    metrics = {"mask_one_hot": s["eta_oh"], "mask_semantic": s["eta_sc"], "disagreement": s["both"]}
    assert {name: float(value) for name, value in result.metrics.items()} == pytest.approx(metrics, abs=1e-6)


def test_total_by_hand() -> None:
    """Two classes, one labelled and one unlabelled image; every number below is worked out on paper."""
    two = Task(("a", "b"), torch.eye(2), torch.arange(2), torch.ones(2).long(), 1)
    method = SemCo(SemCoConfig(scoring="paper", scale=math.log(9.0)), two)

    class Two(Said):
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
            "supervised_one_hot": math.log(2),
            "supervised_semantic": 0.4,
            "unlabelled_one_hot": math.log(4),
            "unlabelled_semantic": 0.4,
            "cotraining": 3 * 0.2 + math.log(4 / 3),
        },
        rel=1e-5,
    )
    expected = math.log(2) + 3 * 0.4 + math.log(4) + 3 * 0.4 + 3 * 0.2 + math.log(4 / 3)
    assert float(result.total) == pytest.approx(expected, rel=1e-5)
    assert float(result.metrics["disagreement"]) == 1.0


def test_no_gradient_through_pseudo_labels() -> None:
    """Even a forward that forgot to detach the weak view would send no gradient into it."""
    example = batch()
    weak, strong = example.unlabelled.weak[0].requires_grad_(), example.unlabelled.strong[0].requires_grad_()

    class Careless(Said):
        def __call__(self, *, no_grad: Mapping[str, Tensor] | None = None, **views: Tensor) -> dict[str, Outputs]:
            return super().__call__(**views, **(no_grad or {}))

    SemCo(SemCoConfig(), task()).compute(example, Careless(), Progress(0, 1, 1, torch.Generator())).total.backward()
    assert weak.grad is None
    assert strong.grad is not None
    assert float(strong.grad.abs().sum()) > 0


def test_nothing_retained_is_supervised_training() -> None:
    example = batch()
    quiet = Batch(
        example.labels,
        example.labelled,
        Views((torch.zeros(U, K + D),), example.unlabelled.strong),
        example.labelled_index,
        example.unlabelled_index,
    )
    result = run(quiet)
    silent = ("unlabelled_one_hot", "unlabelled_semantic", "cotraining")
    assert [float(result.losses[name]) for name in silent] == [0.0, 0.0, 0.0]
    supervised = result.losses["supervised_one_hot"] + 3 * result.losses["supervised_semantic"]
    assert float(result.total) == pytest.approx(float(supervised))


def test_auto_scale_is_solved_on_the_task() -> None:
    rule = SemCo(SemCoConfig(perfect_score=0.8), task()).rule
    assert isinstance(rule, JointScoring)
    assert rule.scale == pytest.approx(solve_scale(task().embeddings, task().groups, 0.8, "abcde"))
    assert isinstance(SemCo(SemCoConfig(scoring="paper"), task()).rule, PaperScoring)
    assert isinstance(SemCo(SemCoConfig(scoring="reference"), task()).rule, ReferenceScoring)


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("scale", -1, r"config method\.scale = -1: input should be greater than 0\."),
        ("tau_e", 1.5, r"config method\.tau_e = 1\.5: input should be less than or equal to 1\."),
        ("scoring", "papre", r"config method\.scoring = 'papre': input should be 'joint', 'paper' or 'reference'\."),
        ("perfect_score", 1, r"config method\.perfect_score = 1: input should be less than 1\."),
    ],
)
def test_bad_fields(field: str, value: object, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        Config.parse({"method": {"name": "semco", field: value}})


def test_pseudo_labels_weigh_as_much_as_the_head_is_sure() -> None:
    """The square of FreeMatch's mean confidence: half of it 1/K, from before the first step, half from the batch."""
    example, fields = batch(), {"thresholds": "freematch", "threshold_warmup": False, "threshold_decay": 0.5}
    sure = run(example, **fields, trust="full")
    ours = run(example, **fields)
    heads = Said()(weak=example.unlabelled.weak[0])["weak"]
    mean = sum(max(math.exp(v) for v in row) / sum(math.exp(v) for v in row) for row in heads.logits.tolist())
    trust = ((1 / heads.logits.shape[1] + mean / len(heads.logits)) / 2) ** 2
    assert 0.1 < trust < 0.9
    scaled = ("unlabelled_one_hot", "unlabelled_semantic", "cotraining")
    for name, loss in sure.losses.items():
        assert float(ours.losses[name]) == pytest.approx(float(loss) * (trust if name in scaled else 1.0), rel=1e-4)
    assert float(ours.losses["cotraining"]) > 0
    assert ours.metrics == sure.metrics  # what is retained, and how much of it is right, are told as they are
    for head in ("one_hot", "semantic"):
        assert torch.equal(ours.pseudo_labels[head].mask, sure.pseudo_labels[head].mask)


def test_disagreement_is_discarded_whatever_pseudo_labels_weigh() -> None:
    example = batch()
    losses = {
        (trust, choice): run(example, thresholds="freematch", trust=trust, on_disagreement=choice).losses["cotraining"]
        for trust in ("confidence", "full")
        for choice in ("both", "discard")
    }
    left = {trust: float(losses[trust, "discard"] / losses[trust, "both"]) for trust in ("confidence", "full")}
    assert 0 < left["full"] < 0.9
    assert left["confidence"] == pytest.approx(left["full"], rel=1e-5)


def test_fixed_thresholds_weigh_fully() -> None:
    example = batch()
    totals = [float(run(example, thresholds="fixed", trust=trust).total) for trust in ("confidence", "full")]
    assert totals[0] == totals[1]


def test_defaults_are_the_papers() -> None:
    config = SemCoConfig(scoring="paper")
    assert (config.lambda_u, config.lambda_co, config.tau_e, config.tau_o) == (1.0, 1.0, 0.7, 0.95)
    assert (config.perfect_score, config.lesson) == (0.9, "label")
    assert SemCoConfig(scoring="paper", tau_e=0.6).tau_e == 0.6
    assert (SemCoConfig().scoring, SemCoConfig().tau_e, SemCoConfig().perfect_score) == ("joint", 0.9, 0.97)
    assert (SemCoConfig().lesson, SemCoConfig().thresholds, SemCoConfig().trust) == (
        "distribution",
        "freematch",
        "confidence",
    )
    assert config.thresholds == SemCoConfig(scoring="reference").thresholds == "fixed"
    assert config.semantic_weight == 3.0
    assert config.on_disagreement == "both"
