"""Draw how much of what each head is surest of is right, whatever its thresholds retain: docs/surest-*.png.

    python scripts/plot_surest.py FixMatch=runs/fixmatch-seed SemCo=runs/semco-seed --title A --out docs/surest-a.png

Each argument is a name and the beginning of the paths of run folders; runs of one name are averaged. Only unlabelled
images of grouped classes are counted. The same is printed as a table.
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
PARTS = np.linspace(0.02, 1, 50)  # of the images, surest first
PRINTED = (0.1, 0.2, 0.4, 0.76, 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", help="NAME=BEGINNING")
    parser.add_argument("--title", default="")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    figure, panels = plt.subplots(1, 2, figsize=(10, 3.6), sharex=True, sharey=True, layout="constrained")
    print("| head | " + " | ".join(f"surest {part:.0%}" for part in PRINTED) + " |")
    for colour, argument in enumerate(arguments.runs):
        name, _, beginning = argument.partition("=")
        folders = [path for path in Path(beginning).parent.glob(f"{Path(beginning).name}*/") if path.is_dir()]
        for head, (title, style) in HEADS.items():
            curves = [curve for path in folders if (curve := right_among_surest(path, head)) is not None]
            if curves:
                mean = 100 * np.mean(curves, axis=0)  # (2, parts)
                print(f"| {name}, {title} | " + " | ".join(f"{a:.0f}, {b:.0f}" for a, b in mean.T[printed()]) + " |")
                for panel, values in zip(panels, mean, strict=True):
                    panel.plot(100 * PARTS, values, style, color=f"C{colour}", label=f"{name}, {title}")
    for panel, what in zip(panels, ("right class", "right group"), strict=True):
        panel.set_title(f"{arguments.title}: {what}" if arguments.title else what, fontsize=10)
        panel.set_xlabel("images of grouped classes, surest first, %")
        panel.set_ylabel("right, %")
        panel.set_ylim(0, 100)
        panel.grid(alpha=0.3)
    panels[0].legend(fontsize=8)
    figure.savefig(arguments.out, dpi=110)


def right_among_surest(run: Path, head: str) -> NDArray[np.float64] | None:
    """How often the class and the group are right in each of PARTS: (2, parts); None without such a head."""
    table = pq.read_table(run / "pseudo_labels.parquet")
    if f"label_{head}" not in table.column_names:
        return None
    groups = np.array(json.loads((run / "labels.json").read_text())["groups"])
    truth, label, confidence = (table[name].to_numpy() for name in ("truth", f"label_{head}", f"confidence_{head}"))
    judged = np.flatnonzero((np.bincount(groups)[groups] > 1)[truth])
    order = judged[np.argsort(-confidence[judged], kind="stable")]
    right = np.stack([label[order] == truth[order], groups[label[order]] == groups[truth[order]]])
    counts = np.round(PARTS * len(order)).astype(int)
    return np.cumsum(right, axis=1)[:, counts - 1] / counts


def printed() -> list[int]:
    return [int(np.abs(PARTS - part).argmin()) for part in PRINTED]


if __name__ == "__main__":
    main()
