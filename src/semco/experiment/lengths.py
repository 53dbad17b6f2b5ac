"""The length of the runs of a comparison for which none was given: equal steps, or equal time on this machine.

It is decided once for all runs and kept in ``plan.json`` of the comparison, so that the same command repeats it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from semco.config import Config
from semco.distributed.processes import Processes
from semco.errors import UserError
from semco.experiment.comparison import Cell
from semco.experiment.context import Context
from semco.experiment.loading import load_request
from semco.experiment.plan import MINUTES, measure_speed, with_default_minutes, with_steps
from semco.experiment.problem import prepare
from semco.files import read_json_object, write_json
from semco.methods import FittedMethod
from semco.models import has_weights
from semco.resolve import Machine, method_of, resolve
from semco.resolve.rules import MOST_STEPS
from semco.training.execution import choose_device
from semco.training.observer import NullObserver

PLAN_FILE = "plan.json"
Equal = Literal["steps", "time"]


@dataclass(frozen=True)
class Lengths:
    """The steps of each variant, and whether steps or times are equal."""

    equal: Equal
    minutes: float | None  # None: nothing had to be timed
    steps: dict[str, int]

    def describe(self) -> str:
        """Return the lengths in one line, for tables."""
        if self.equal == "time":
            each = ", ".join(f"{variant} {steps:,}" for variant, steps in self.steps.items())
            return f"equal time, {self.minutes:g} min per run here; steps: {each}"
        time = "" if self.minutes is None else f", {self.minutes:g} min for the slowest here"
        return f"equal steps, {max(self.steps.values()):,} per run{time}"


def has_length(request: Config) -> bool:
    """Return whether a request says how many steps its run takes, or its method takes none."""
    training = request.training
    return training.steps is not None or training.epochs is not None or is_fitted(request)


def is_fitted(request: Config) -> bool:
    """Return whether the method of a request takes no steps."""
    return issubclass(method_of(request), FittedMethod)


def with_lengths(
    cells: Sequence[Cell],
    out: Path,
    equal: Equal,
    minutes: float | None = None,
    steps_of: Callable[[Config, float], int] | None = None,
) -> tuple[list[Cell], Lengths | None]:
    """Return the cells with a number of steps each, and their lengths if these were open.

    A method that takes no steps has the minutes that its views may take, as in `semco train`.
    """
    cells = [
        replace(cell, config=with_default_minutes(cell.config, minutes or MINUTES)) if is_fitted(cell.config) else cell
        for cell in cells
    ]
    first = {cell.variant: cell for cell in reversed(cells) if not has_length(cell.config)}
    if not first:
        return list(cells), None
    saved = read_lengths(out)
    if saved is not None and (saved.equal != equal or (minutes is not None and saved.minutes != minutes)):
        raise UserError(
            f"{out} holds a comparison with {saved.describe()}; repeat it with the same options, or choose another "
            "folder."
        )
    lengths = choose_lengths(list(first.values())[::-1], equal, minutes, saved, steps_of)
    write_json(out / PLAN_FILE, asdict(lengths))
    return [_with_length(cell, lengths) if cell.variant in first else cell for cell in cells], lengths


def choose_lengths(
    cells: Sequence[Cell],
    equal: Equal,
    minutes: float | None,
    saved: Lengths | None = None,
    steps_of: Callable[[Config, float], int] | None = None,
) -> Lengths:
    """Return the lengths of variants, each given by one cell; lengths that were decided before are kept.

    With equal steps, all methods take the same small number of steps from loaded weights; from random weights, as many
    as the slowest method can take in the given minutes.
    """
    known = {} if saved is None else saved.steps
    missing = [cell for cell in cells if cell.variant not in known]
    if equal == "steps" and saved is not None:
        return replace(saved, steps=known | {cell.variant: max(known.values()) for cell in missing})
    if equal == "steps" and minutes is None and all(has_weights(cell.config.model) for cell in cells):
        return Lengths(equal, None, {cell.variant: MOST_STEPS for cell in cells})
    limit = minutes or (saved.minutes if saved else None) or MINUTES
    timed = {cell.variant: (steps_of or steps_that_fit)(cell.config, limit) for cell in missing}
    if equal == "steps":
        timed = dict.fromkeys(timed, min(timed.values()))
    return Lengths(equal, limit, known | timed)


def steps_that_fit(request: Config, minutes: float) -> int:
    """Return how many steps of a run fit into the minutes on this machine."""
    observer, processes = NullObserver(), Processes()
    loaded = load_request(request, observer)
    config = resolve(request, loaded.facts, Machine.of_this_process()).config
    problem = prepare(config, loaded.dataset, loaded.facts.label_vectors(config.labels), observer)
    device = choose_device(config.training.device, processes)
    context = Context.of(config, Path(), problem, device, processes, observer)
    return measure_speed(context).steps_in(minutes, config.training.total_steps)


def read_lengths(out: Path) -> Lengths | None:
    """Return the lengths that a comparison was started with, if it was."""
    file = out / PLAN_FILE
    if not file.is_file():
        return None
    try:
        values = read_json_object(file)
        steps = {str(variant): int(number) for variant, number in values["steps"].items()}
        minutes = values["minutes"]
        if not steps or min(steps.values()) < 1:
            raise ValueError("no steps")
        return Lengths("time" if values["equal"] == "time" else "steps", minutes and float(minutes), steps)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{file} is damaged ({error}); remove it, or choose another folder.") from None


def _with_length(cell: Cell, lengths: Lengths) -> Cell:
    return replace(cell, config=with_steps(cell.config, lengths.steps[cell.variant]))
