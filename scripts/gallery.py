"""Write a page of finished runs: the result, the command that repeats it, and the confusion matrix of each.

    python scripts/gallery.py runs/photos runs/clothes --out docs/gallery.md

The pictures go into a folder beside the page that has its name.
"""

from __future__ import annotations

import argparse
import json
import shlex
import textwrap
from collections.abc import Sequence
from pathlib import Path

from semco.cli.options import default_recipe
from semco.config import AUTO, Config, changed_fields, configure
from semco.config.recipes import recipes
from semco.experiment.plan import with_default_minutes
from semco.report.classes import confusions
from semco.report.names import method_title
from semco.report.runs import read_run
from semco.report.sections import file_stem
from semco.run.folder import RunFolder
from semco.run.result import describe_accuracy, describe_probe

TITLE = "# Gallery\n\nWhat finished runs look like; `scripts/gallery.py` made this page from their folders.\n"
# The report's light colours: in a picture of its own, nothing else defines them.
STYLE = "<style>svg { --ink-2: #5c6068; --line: #e4e4e1; background: #fff; font-family: sans-serif; }</style>"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", help="folders of finished runs with test images")
    parser.add_argument("--out", type=Path, required=True, help="the page")
    args = parser.parse_args(arguments)
    pictures = args.out.with_suffix("")
    pictures.mkdir(parents=True, exist_ok=True)
    args.out.write_text("\n".join([TITLE, *(part(run, pictures) for run in args.runs)]), encoding="utf-8")


def part(path: Path, pictures: Path) -> str:
    """Return the part of the page about one run, and write its picture."""
    run, result = read_run(path), RunFolder.open(path).result()
    found = confusions(run)
    if found is None or found.chart is None or run.evaluated != "test":
        raise SystemExit(f"{path} has no confusion matrix: the gallery shows finished runs with test images.")
    title = f"{method_title(run)} on {Path(run.section('data')['source']).name}"
    picture = pictures / f"{file_stem(title)}.svg"
    before, bracket, after = found.chart.svg.partition(">")
    picture.write_text(f"{before}{bracket}{STYLE}{after}\n", encoding="utf-8")
    told = "; ".join(filter(None, (describe_accuracy(result), describe_probe(result))))
    image = f"![{found.chart.title}: {title}]({pictures.name}/{picture.name})"
    facts = textwrap.fill(f"{result.num_labels} labels, {result.steps:,} training steps: {told}.", 100)
    return f"## {title}\n\n{facts}\n\n```bash\n{command(RunFolder.open(path).request())}\n```\n\n{image}\n"


def command(request: Config) -> str:
    """Return the shortest ``semco train`` that asks for the same: recipes, and the settings in which they differ."""
    wanted, source, method = request.model_dump(mode="json"), request.data.source, request.method.name
    found = []
    for base in ("", *recipes(), method, *(f"{name},{method}" for name in recipes())):
        if base.endswith(AUTO):
            continue
        recipe = base or default_recipe(source)
        changed = changed_fields(configure(recipe).model_dump(mode="json"), wanted)
        settings = [f"{name}={json.dumps(new)}" for name, (_, new) in changed.items() if new is not None]
        if with_default_minutes(configure(recipe, settings=settings)) == with_default_minutes(request):
            options = [
                each for setting in settings if not setting.startswith("data.source=") for each in ("--set", setting)
            ]
            found.append(["semco", "train", Path(source).name, *(["--recipe", base] if base else []), *options])
    return shlex.join(min(found, key=len))


if __name__ == "__main__":
    main()
