"""``semco train``: from data to a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from semco.cli.display import Display
from semco.cli.running import messages, run_in_processes, saying_how_to_resume, show_result


def train(
    data: str = typer.Argument(
        None, help="fashion-mini, cifar10, cifar100, an .npz file, or a folder of class folders."
    ),
    method: str = typer.Option(None, help="See 'semco methods'."),
    labels_per_class: int = typer.Option(None, help="Labelled images of each class."),
    labels: int = typer.Option(None, help="Labelled images in all."),
    classes: str = typer.Option(None, help="Only these classes: a,b,c."),
    data_root: Path = typer.Option(None, help="Where the official files of cifar10 and cifar100 lie."),
    strict: bool = typer.Option(None, "--strict", help="Stop at an unreadable image instead of skipping it."),
    backbone: str = typer.Option(None, help="wrn-DEPTH-WIDTH, resnet18 or resnet50."),
    steps: int = typer.Option(None, help="Length of the run in steps."),
    epochs: float = typer.Option(None, help="Length of the run in epochs of 65,536 labelled images."),
    batch_size: int = typer.Option(None, help="Labelled images a step."),
    mu: int = typer.Option(None, help="Unlabelled images per labelled one."),
    seed: int = typer.Option(None, help="Decides the split, the initial weights and the views."),
    recipe: str = typer.Option(None, help="A named run, see 'semco recipes'."),
    config: Path = typer.Option(None, help="A YAML file of configuration values."),
    setting: list[str] = typer.Option([], "--set", help="dotted.key=value, any field of the configuration."),
    out: Path = typer.Option(None, help="The run folder; a new one below runs/ if not given."),
    processes: int = typer.Option(1, min=1, help="Train in so many processes (torchrun)."),
    as_json: bool = typer.Option(False, "--json", help="End with one JSON object."),
) -> None:
    """Train a classifier and write a run folder with the model, the metrics and a report."""
    from semco.recipes import configure
    from semco.training.run_folder import free_run_folder

    options: dict[str, Any] = {
        "data": {
            "source": data,
            "labels_per_class": labels_per_class,
            "labels": labels,
            "classes": classes.split(",") if classes else None,
            "root": data_root,
            "strict": strict,
        },
        "model": {"backbone": backbone},
        "method": {"name": method},
        "training": {"steps": steps, "epochs": epochs, "batch_size": batch_size, "mu": mu, "seed": seed},
    }
    chosen = configure(recipe, config, given(options), setting)
    if processes > 1:
        run_in_processes(processes, train_here, chosen.to_yaml(), out or free_run_folder(chosen), as_json)
    else:
        train_here(chosen.to_yaml(), out, as_json)


def train_here(config: str, out: Path | None, as_json: bool) -> None:
    """Train in this process, alone or as one of several."""
    import semco.methods  # noqa: F401 (fills the registry of method configurations)
    from semco.config import Config
    from semco.experiment import train as run_training

    chosen = Config.from_yaml(config)
    title = f"{chosen.method.name} on {Path(chosen.data.source).name}"
    with saying_how_to_resume(), Display(messages(), title) as display:
        result = run_training(chosen, out, display)
    show_result(result, as_json=as_json)


def given(options: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Only the options that were given."""
    sections = {name: {k: v for k, v in values.items() if v is not None} for name, values in options.items()}
    return {name: values for name, values in sections.items() if values}
