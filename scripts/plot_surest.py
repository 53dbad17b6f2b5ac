"""Plot the accuracy of each head on its most confident pseudo-labels, retained or not: docs/lab/surest-*.png.

    python scripts/plot_surest.py FixMatch=runs/fixmatch-seed SemCo+=runs/semco_plus-seed --title A --out surest-a.png

Each argument is a name and a prefix of paths of run folders; runs with the same name are averaged. Only unlabelled
images of grouped classes count. The numbers are also printed as a table.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

HEADS = {"one_hot": ("one-hot head", "-"), "semantic": ("semantic head", "--")}
FRACTIONS = np.linspace(0.02, 1, 50)  # of the images, most confident first
PRINTED = (0.1, 0.2, 0.4, 0.76, 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", help="NAME=PREFIX")
    parser.add_argument("--title", default="")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    figure, panels = plt.subplots(1, 2, figsize=(10, 3.6), sharex=True, sharey=True, layout="constrained")
    print("| head | " + " | ".join(f"most confident {fraction:.0%}" for fraction in PRINTED) + " |")
    for colour, argument in enumerate(arguments.runs):
        name, _, prefix = argument.partition("=")
        folders = [path for path in Path(prefix).parent.glob(f"{Path(prefix).name}*/") if path.is_dir()]
        for head, (title, style) in HEADS.items():
            curves = [curve for path in folders if (curve := accuracy_by_confidence(path, head)) is not None]
            if curves:
                mean = 100 * np.mean(curves, axis=0)  # (2, fractions)
                print(
                    f"| {name}, {title} | "
                    + " | ".join(f"{a:.0f}, {b:.0f}" for a, b in mean.T[printed_columns()])
                    + " |"
                )
                for panel, values in zip(panels, mean, strict=True):
                    panel.plot(100 * FRACTIONS, values, style, color=f"C{colour}", label=f"{name}, {title}")
    for panel, what in zip(panels, ("correct class", "correct group"), strict=True):
        panel.set_title(f"{arguments.title}: {what}" if arguments.title else what, fontsize=10)
        panel.set_xlabel("most confident images of grouped classes, %")
        panel.set_ylabel("correct, %")
        panel.set_ylim(0, 100)
        panel.grid(alpha=0.3)
    panels[0].legend(fontsize=8)
    figure.savefig(arguments.out, dpi=110)


def accuracy_by_confidence(run: Path, head: str) -> NDArray[np.float64] | None:
    """Return accuracy and group accuracy on each of FRACTIONS (2, fractions); None if the run has no such head."""
    table = pq.read_table(run / "pseudo_labels.parquet")
    if f"label_{head}" not in table.column_names:
        return None
    group_ids = np.array(json.loads((run / "labels.json").read_text())["groups"])
    truth, label, confidence = (table[name].to_numpy() for name in ("truth", f"label_{head}", f"confidence_{head}"))
    is_grouped = np.bincount(group_ids)[group_ids] > 1
    grouped = np.flatnonzero((truth >= 0) & is_grouped[truth])  # -1: unknown
    order = grouped[np.argsort(-confidence[grouped], kind="stable")]
    correct = np.stack([label[order] == truth[order], group_ids[label[order]] == group_ids[truth[order]]])
    counts = np.round(FRACTIONS * len(order)).astype(int)
    return np.cumsum(correct, axis=1)[:, counts - 1] / counts


def printed_columns() -> list[int]:
    """Return the positions of the printed fractions."""
    return [int(np.abs(FRACTIONS - fraction).argmin()) for fraction in PRINTED]


if __name__ == "__main__":
    main()
