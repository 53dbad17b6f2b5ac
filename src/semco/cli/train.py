"""``semco train``: from data to a run folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from semco.cli.display import Display, Verbose
from semco.cli.options import MethodName, RecipeNames, RunOptions, default_recipe, with_options
from semco.cli.running import (
    STARTED,
    importing,
    is_main,
    run_in_processes,
    show_how_to_resume,
    show_result,
    status_console,
)


@with_options(RunOptions)
def train(
    options: RunOptions,
    *,
    method: MethodName = None,
    strict: Annotated[bool | None, typer.Option("--strict", help="Stop at an unreadable image.")] = None,
    strict_names: Annotated[
        bool | None, typer.Option("--strict-names", help="Stop at a class name that has no label vector.")
    ] = None,
    epochs: Annotated[float | None, typer.Option(help="Length of the run in epochs of 65,536 labelled images.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the split, the initial weights and the views.")] = None,
    recipe: RecipeNames = None,
    config: Annotated[Path | None, typer.Option(help="A YAML file of configuration values.")] = None,
    out: Annotated[Path | None, typer.Option(help="The run folder; by default a new one below runs/.")] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0.1, help="Time for the run; 15 if no other length is given.")
    ] = None,
    from_scratch: Annotated[bool, typer.Option("--from-scratch", help="Do not start from pretrained weights.")] = False,
    processes: Annotated[int, typer.Option(min=1, help="Number of processes (torchrun).")] = 1,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write event files for TensorBoard into the run folder.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="End with one JSON object.")] = False,
    verbose: Verbose = False,
) -> None:
    """Train a classifier and write a run folder with the model, the metrics and a report."""
    with importing():
        from semco.config import configure
        from semco.experiment.plan import with_default_minutes
        from semco.run.folder import free_run_folder

    options.require_data(recipe is not None or config is not None)
    values = options.values(
        method=method,
        strict=strict,
        strict_names=strict_names,
        epochs=epochs,
        minutes=minutes,
        seed=seed,
        pretrained="none" if from_scratch else None,
    )
    if not (recipe or config or from_scratch or options.backbone):
        recipe = default_recipe(options.data)
    chosen = with_default_minutes(configure(recipe, config, values, options.settings))
    if processes > 1:
        folder = out or free_run_folder(chosen)
        run_in_processes(processes, train_here, chosen.to_yaml(), folder, as_json, tensorboard, verbose)
    else:
        train_here(chosen.to_yaml(), out, as_json, tensorboard, verbose)


def train_here(config: str, out: Path | None, as_json: bool, tensorboard: bool = False, verbose: bool = False) -> None:
    """Train in this process, alone or as one of several."""
    with importing():
        from semco.config import Config
        from semco.experiment import train as run_training
        from semco.report.tensorboard import TensorBoard
        from semco.resolve import method_of
        from semco.run.folder import free_run_folder
        from semco.training.observer import Observers

    chosen = Config.from_yaml(config)
    title = Path(chosen.data.source).name
    if verbose:
        title = f"{method_of(chosen).name} on {title}"
    if tensorboard or "RANK" not in os.environ:  # processes that torchrun restarts look for the folder themselves
        out = out or free_run_folder(chosen)
    board = TensorBoard(out) if tensorboard and out is not None and is_main() else None
    with show_how_to_resume(run=out), Display(status_console(), title, verbose) as display:
        observer = display if board is None else Observers(display, board)
        result = run_training(chosen, out, observer, started=STARTED)
    if board is not None:
        board.finish()
    show_result(result, as_json=as_json)
