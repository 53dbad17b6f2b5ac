"""Print what each reading of "normalising the cosines" gives for random, half-sure and perfect predictions.

    python scripts/readings.py [DATASET] [--vectors plain|bundled] [--eps 0.2]

The paper retains an image where the highest group score is at least tau_e = 0.7. A reading can work only if perfect
predictions reach that and random ones do not. docs/lab/readings.md has the result.

Shapes: N predictions, K classes, d embedding size, Q groups.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
from torch import Tensor

from semco.data.class_names import class_names
from semco.groups.grouping import group_classes
from semco.labels.sources import store_source
from semco.pseudo_labels import ClassGroups, class_probabilities, cosine_similarities
from semco.pseudo_labels.scale import authors_scale, solve_scale

TAU_E = 0.7
SCORE = 0.9  # mean score of a perfect prediction for the solved scale
PREDICTIONS = 10_000  # of the random and half-sure kinds

Reading = Callable[[Tensor], Tensor]  # embeddings (N, d) -> group scores (N, Q)


def readings(vectors: Tensor, group_ids: Tensor, names: list[str]) -> dict[str, Reading]:
    """Return the group scores of each reading, as functions of predicted embeddings; vectors (K, d) of unit length."""
    groups = ClassGroups(group_ids)
    solved, authors = solve_scale(vectors, group_ids, SCORE, names), authors_scale(len(groups.sizes))

    def cosines(q: Tensor) -> Tensor:
        return cosine_similarities(q, vectors)

    def softmax(scale: float) -> Reading:
        return lambda q: groups.sum_scores(class_probabilities(q, vectors, scale))

    return {
        "softmax, no scale": softmax(1.0),
        "L1: cosines / sum of their sizes": lambda q: groups.sum_scores(cosines(q) / cosines(q).norm(1, -1, True)),
        "L2: cosines / their length": lambda q: groups.sum_scores(cosines(q) / cosines(q).norm(2, -1, True)),
        "raw sum in the group": lambda q: groups.sum_scores(cosines(q)),
        "raw mean in the group (released code)": lambda q: groups.sum_scores(cosines(q)) / groups.sizes,
        f"softmax, scale: authors ({authors:.1f})": softmax(authors),
        f"softmax, scale: solved ({solved:.1f})": softmax(solved),
    }


def predictions(vectors: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
    """Return embeddings (N, d): random directions, midpoints of two different classes, label vectors."""
    classes, size = vectors.shape
    first = torch.randint(classes, (PREDICTIONS,), generator=generator)
    second = (first + torch.randint(1, classes, (PREDICTIONS,), generator=generator)) % classes
    return {
        "random": torch.randn(PREDICTIONS, size, generator=generator),
        "half-sure": vectors[first] + vectors[second],
        "perfect": vectors,
    }


def table(dataset: str, vectors: str, eps: float) -> list[str]:
    """Return the lines of the table: mean highest group score and the share that reaches tau_e."""
    names = list(class_names(dataset))
    embeddings = store_source("plain" if vectors == "plain" else None).vectors(names)
    matrix = torch.from_numpy(embeddings.matrix)
    group_ids = torch.from_numpy(group_classes(embeddings, eps).group_ids)
    made = predictions(matrix, torch.Generator().manual_seed(0))
    lines = ["| reading | " + " | ".join(made) + " |", "|---|" + "---|" * len(made)]
    for title, score in readings(matrix, group_ids, names).items():
        best = [score(q).amax(dim=-1) for q in made.values()]
        cells = [f"{float(b.mean()):.2f}, {float((b >= TAU_E).float().mean()):.0%}" for b in best]
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", nargs="?", default="cifar100")
    parser.add_argument("--vectors", choices=("plain", "bundled"), default="plain")
    parser.add_argument("--eps", type=float, default=0.2)
    args = parser.parse_args()
    print("\n".join(table(args.dataset, args.vectors, args.eps)))


if __name__ == "__main__":
    main()
