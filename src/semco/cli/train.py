"""``semco train``: from data to a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from semco.cli import options
from semco.cli.display import Display
from semco.cli.running import messages, run_in_processes, saying_how_to_resume, show_result


def train(
    data: options.Data = None,
    method: Annotated[str | None, typer.Option(help="See 'semco methods'.")] = None,
    labels_per_class: options.LabelsPerClass = None,
    labels: options.Labels = None,
    classes: options.Classes = None,
    data_root: options.DataRoot = None,
    strict: Annotated[
        bool | None, typer.Option("--strict", help="Stop at an unreadable image instead of skipping it.")
    ] = None,
    backbone: options.Backbone = None,
    steps: options.Steps = None,
    epochs: Annotated[float | None, typer.Option(help="Length of the run in epochs of 65,536 labelled images.")] = None,
    batch_size: options.BatchSize = None,
    mu: options.Mu = None,
    seed: Annotated[int | None, typer.Option(help="Decides the split, the initial weights and the views.")] = None,
    recipe: Annotated[str | None, typer.Option(help="A named run, see 'semco recipes'.")] = None,
    config: Annotated[Path | None, typer.Option(help="A YAML file of configuration values.")] = None,
    setting: options.Settings = None,
    out: Annotated[Path | None, typer.Option(help="The run folder; a new one below runs/ if not given.")] = None,
    processes: Annotated[int, typer.Option(min=1, help="Train in so many processes (torchrun).")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="End with one JSON object.")] = False,
) -> None:
    """Train a classifier and write a run folder with the model, the metrics and a report."""
    from semco.recipes import configure
    from semco.training.run_folder import free_run_folder

    options.require_data(data, recipe is not None or config is not None, setting or ())
    said = options.given(
        classes,
        data=data,
        labels_per_class=labels_per_class,
        labels=labels,
        data_root=data_root,
        strict=strict,
        method=method,
        backbone=backbone,
        steps=steps,
        epochs=epochs,
        batch_size=batch_size,
        mu=mu,
        seed=seed,
    )
    chosen = configure(recipe, config, said, setting or ())
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
