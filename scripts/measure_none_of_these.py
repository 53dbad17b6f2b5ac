"""Table of docs/lab/other.md: which score tells photos of other things from photos of the classes.

python scripts/measure_none_of_these.py OWN.npz FOREIGN.npz
python scripts/measure_none_of_these.py OWN.npz species [pool]

The files hold features of frozen layers: ``F`` (2, N, 1280) of the plain view and the close-up, ``y`` (N,) class ids,
``test`` (N,) and ``names`` of the classes. "species" makes 10 random classes foreign; "pool" leaves their training
photos in the pool. Five labels per class, the mean of five seeds.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from semco.config import LabelsConfig
from semco.evaluation.thresholds import choose_threshold, find_thresholds
from semco.labels import label_source
from semco.methods.semantic_probe import SemanticProbe, SemanticProbeConfig
from semco.models.familiarity import fit_familiarity
from semco.types import Task

LABELS, SEEDS, FOREIGN_CLASSES = 5, 5, 10


@dataclass(frozen=True)
class Photos:
    views: Tensor  # (N, 2, F)
    class_ids: Tensor  # (N,)

    def __len__(self) -> int:
        return len(self.views)

    def read(self, position: Tensor) -> Tensor:
        return self.views[position]

    def some(self, index: Tensor) -> Photos:
        return Photos(self.views[index], self.class_ids[index])


def read(file: str) -> tuple[Photos, Photos, list[str]]:
    """Return the training photos, the test photos and the class names."""
    with np.load(file) as values:
        photos = Photos(torch.from_numpy(values["F"]).float().transpose(0, 1), torch.from_numpy(values["y"]))
        test, names = torch.from_numpy(values["test"]), [str(name).replace("_", " ") for name in values["names"]]
    return photos.some(~test), photos.some(test), names


def scores(train: Photos, labelled: Tensor, pool: Tensor, names: list[str], photos: list[Photos]) -> dict[str, list]:
    """Return, by score, its values for several sets of photos; the last set has the held-out labels' familiarity."""
    ids = train.class_ids[labelled]
    vectors = torch.from_numpy(label_source(LabelsConfig()).vectors(names).matrix)
    counts = torch.bincount(ids, minlength=len(names))
    task = Task(tuple(names), vectors, torch.arange(len(names)), counts, len(pool), 1280)
    method = SemanticProbe(SemanticProbeConfig(), task)
    transform = method.transform(train.some(torch.cat([labelled, pool])))
    head = method.fit(transform(train.read(labelled)), ids, transform(train.read(pool)))
    plain = train.read(labelled)[:, 0]
    familiarity, held_out = fit_familiarity(lambda position: plain[position], ids, len(names))
    logits = [head.logits(transform(each.views)) for each in photos]
    means = torch.nn.functional.normalize(
        torch.stack([transform(train.read(labelled))[ids == k].mean(dim=0) for k in range(len(names))]), dim=1
    )
    return {
        "largest probability": [each.softmax(dim=1).amax(dim=1) for each in logits],
        "negative entropy": [(each.softmax(dim=1) * each.log_softmax(dim=1)).sum(dim=1) for each in logits],
        "largest logit": [each.amax(dim=1) for each in logits],
        "energy": [each.logsumexp(dim=1) for each in logits],
        "class mean, transformed": [(transform(each.views) @ means.T).amax(dim=1) for each in photos],
        "class mean, features": [*(familiarity(each.views[:, 0]) for each in photos), held_out],
    }


def trial(arguments: list[str], seed: int) -> dict[str, tuple[float, ...]]:
    generator = np.random.default_rng(seed)
    train, own, names = read(arguments[0])
    classes = generator.permutation(len(names))
    if arguments[1] == "species":
        foreign = torch.from_numpy(classes[:FOREIGN_CLASSES])
        kept = torch.from_numpy(np.sort(classes[FOREIGN_CLASSES:]))
        other = own.some(torch.isin(own.class_ids, foreign))
        own = own.some(torch.isin(own.class_ids, kept))
        new = torch.full((len(names),), -1)
        new[kept] = torch.arange(len(kept))
        train, names = Photos(train.views, new[train.class_ids]), [names[k] for k in kept.tolist()]
    else:
        other = read(arguments[1])[1]
    of_class = [np.flatnonzero(train.class_ids.numpy() == k) for k in range(len(names))]
    labelled = torch.from_numpy(np.concatenate([generator.choice(each, LABELS, replace=False) for each in of_class]))
    usable = torch.ones(len(train), dtype=torch.bool) if "pool" in arguments else train.class_ids >= 0
    usable[labelled] = False
    found = {}
    for name, (known, unknown, *held_out) in scores(
        train, labelled, usable.nonzero()[:, 0], names, [own, other]
    ).items():
        truth = np.repeat([1, 0], [len(known), len(unknown)])
        least = float(np.quantile(known, 0.05))
        found[name] = (roc_auc_score(truth, torch.cat([known, unknown])), float((unknown < least).float().mean()))
        if held_out:
            least = choose_threshold(find_thresholds(held_out[0].numpy()), 0.05).least
            found[name] += (float((known < least).float().mean()), float((unknown < least).float().mean()))
    return found


def main() -> None:
    torch.set_num_threads(1)
    trials = [trial(sys.argv[1:], seed) for seed in range(SEEDS)]
    print("AUROC, foreign photos rejected with 5 % of the own; with the threshold of the labels: own, foreign rejected")
    for name in trials[0]:
        print(f"{name:24}", *(f"{100 * value:6.1f}" for value in np.mean([each[name] for each in trials], axis=0)))


if __name__ == "__main__":
    main()
