"""Plot which fraction of the pool each head retains over the steps, and its accuracy: docs/lab/confidence.png.

    python scripts/plot_pseudo_labels.py FixMatch=runs/fixmatch-seed SemCo+=runs/semco_plus-seed --out confidence.png

Each argument is a name and a prefix of paths of run folders; runs with the same name are averaged per step.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from semco.report.charts import mean_curve
from semco.report.runs import Run, read_run

COLUMNS = {
    "fraction of the pool retained": "ratio",
    "retained pseudo-labels: correct class": "accuracy",
    "retained pseudo-labels: correct group": "group_accuracy",
}
HEADS = {"one_hot": "one-hot head", "semantic": "semantic head"}
LINE_STYLES = {"grouped": "-", "ungrouped": ":"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", help="NAME=PREFIX")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    figure, axes = plt.subplots(2, 3, figsize=(12, 6), sharex=True, sharey=True, layout="constrained")
    for colour, argument in enumerate(arguments.runs):
        name, _, prefix = argument.partition("=")
        folders = Path(prefix).parent.glob(f"{Path(prefix).name}*/")
        runs = [read_run(path) for path in sorted(folders) if path.is_dir()]
        for row, head in zip(axes, HEADS, strict=True):
            for panel, key in zip(row, COLUMNS.values(), strict=True):
                draw(panel, runs, f"pseudo/{head}/{key}", name, f"C{colour}")
    for row, head in zip(axes, HEADS.values(), strict=True):
        row[0].set_ylabel(head)
    for panel, title in zip(axes[0], COLUMNS, strict=True):
        panel.set_title(title, fontsize=10)
    for panel in axes.flat:
        panel.set_ylim(0, 1)
        panel.grid(alpha=0.3)
    for panel in axes[1]:
        panel.set_xlabel("training step")
    lines, names = axes[0][0].get_legend_handles_labels()
    axes[1][0].legend(  # this panel has room for it
        lines, names, loc="lower right", fontsize=8, title="solid: grouped classes, dotted: others", title_fontsize=8
    )
    figure.savefig(arguments.out, dpi=110)


def draw(panel: Axes, runs: list[Run], key: str, name: str, colour: str) -> None:
    """Draw the mean curves of one metric for grouped and for other classes."""
    for kind, style in LINE_STYLES.items():
        curves = [curve for run in runs if (curve := run.series(f"{key}/{kind}"))[0]]
        if curves:
            label = name if kind == "grouped" else None
            panel.plot(*mean_curve(curves), style, color=colour, label=label, linewidth=1.6)


if __name__ == "__main__":
    main()
