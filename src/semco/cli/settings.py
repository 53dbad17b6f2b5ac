"""What can be set: ``semco settings``, ``methods``, ``recipes`` and ``config``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from semco.cli.options import MethodName, RecipeNames, RunOptions, default_recipe, with_options

if TYPE_CHECKING:
    from semco.config import Config, Section
    from semco.resolve import Resolution


# The ends of a range in words, by their names in a JSON schema.
NO_END = 2**53  # limits from here on say nothing to a person
ENDS = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "exclusiveMaximum": "below"}
KINDS = {
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "string": "text",
    "array": "a list: [a, b]",
    "object": "a mapping: {a: b}",
}


def settings(
    section: str = typer.Argument(
        None, help="Show only this section or field, for example training or training.steps."
    ),
) -> None:
    """List the fields that --set takes: default, allowed values, meaning."""
    from semco.config import Config
    from semco.config.schema import DEFAULT_METHOD, method_config_class
    from semco.errors import unknown

    sections: dict[str, type[Section]] = {name: type(values) for name, values in Config()}
    sections["method"] = method_config_class(DEFAULT_METHOD)
    name, _, field = (section or "").partition(".")
    if name and name not in sections:
        raise unknown("section", name, sections)
    field = field.partition(".")[0]  # a field of a rule is shown with the rule
    if field and field not in sections[name].model_fields:
        raise unknown(f"field of {name}", field, sections[name].model_fields)
    for each in [name] if name else sections:
        show_fields(each, sections[each], field)
    if name in ("", "method"):
        Console().print(
            "These are the fields of SemCo+; `semco methods NAME` shows those of other methods.", style="dim"
        )


def show_fields(section: str, config: type[Section], only: str = "") -> None:
    """Print each field, or only one, as it is written after --set: default, allowed values, and its meaning below."""
    console = Console(highlight=False)
    defaults = config.model_construct().model_dump(mode="json")
    for field, schema in config.model_json_schema()["properties"].items():
        if (section, field) == ("method", "name") or (only and field != only):
            continue
        branches = _branches(config, field)
        value = defaults[field]["rule"] if branches else defaults.get(field)
        allowed = ", ".join(branches) if branches else allowed_values(schema)
        name = f"{section}.{field}.rule" if branches else f"{section}.{field}"
        console.print(Text.assemble((name, "bold"), f"={_as_yaml(value)}  ", (allowed, "dim")))
        _show_meaning(console, config, field, indent=4)
        for rule, branch in branches.items():
            _show_branch(console, f"{section}.{field}", rule, branch)


def _show_branch(console: Console, prefix: str, rule: str, config: type[Section]) -> None:
    """Print the fields that a field has under one of its rules."""
    defaults = config.model_construct().model_dump(mode="json")
    for field, schema in config.model_json_schema()["properties"].items():
        if field != "rule":
            line = Text.assemble((f"{prefix}.{field}", "bold"), f"={_as_yaml(defaults[field])}  ")
            console.print(Padding(line.append(f"{allowed_values(schema)} (with rule {rule})", "dim"), (0, 0, 0, 4)))
            _show_meaning(console, config, field, indent=8)


def _show_meaning(console: Console, config: type[Section], field: str, indent: int) -> None:
    """Print the description of a field below it; nothing if it has none."""
    if text := meaning(config, field):
        console.print(Padding(Text(text), (0, 0, 0, indent)))


def _branches(config: type[Section], field: str) -> dict[str, type[Section]]:
    """Return the sections that a field chooses among, by their rule; empty for an ordinary field."""
    branches = getattr(config.model_fields[field].annotation, "__args__", ())
    sections = [each for each in branches if "rule" in getattr(each, "model_fields", {})]
    return {each.model_fields["rule"].default: each for each in sections}


def _as_yaml(value: object) -> str:
    import yaml

    return yaml.safe_dump(value, default_flow_style=True, width=200).removesuffix("...\n").strip()


def meaning(config: type[Section], field: str) -> str:
    """Return the description of a field, empty if there is none; a subclass that only changes the default inherits it.

    Fields of the package have one, which a test checks; a method in the making may not.
    """
    for each in config.__mro__:
        about = getattr(each, "model_fields", {}).get(field)
        if about is not None and about.description:
            return " ".join(about.description.split())
    return ""


def allowed_values(schema: Mapping[str, Any]) -> str:
    """Return the allowed values of a field in words, from its JSON schema."""
    if "anyOf" in schema:
        return " or ".join(allowed_values(each) for each in schema["anyOf"])
    if named := schema.get("enum") or ([schema["const"]] if "const" in schema else []):
        return ", ".join(named)
    ends = [f"{word} {schema[end]:g}" for end, word in ENDS.items() if abs(schema.get(end, NO_END)) < NO_END]
    return " ".join([KINDS.get(schema["type"], schema["type"]), *ends])


def methods(
    name: str = typer.Argument(None, help="Show the fields of this method."),
) -> None:
    """List the methods, or the fields of one: default, allowed values, meaning."""
    from semco.errors import unknown
    from semco.methods import Method

    if name is None:
        table = Table("method", "what it is", "heads", box=None)
        for key, method in sorted(Method.registry.items()):
            table.add_row(key, method.title, ", ".join(method.heads))
        Console().print(table)
        return
    if name not in Method.registry:
        raise unknown("method", name, Method.registry)
    Console().print(Method.registry[name].title, style="bold", highlight=False)
    show_fields("method", Method.registry[name].Config)


def recipes(name: str = typer.Argument(None, help="Show the values of this recipe.")) -> None:
    """List the recipes, those of the paper's tables with the published error, or show one."""
    import yaml

    from semco.config.recipes import find_recipe
    from semco.config.recipes import recipes as all_recipes

    console = Console()
    if name is not None:
        recipe = find_recipe(name)
        console.print(recipe.about, style="bold", highlight=False, markup=False)
        if recipe.extends:
            console.print(f"on top of: {', '.join(recipe.extends)}", highlight=False, markup=False)
        console.print(yaml.safe_dump(recipe.values, sort_keys=False), highlight=False, markup=False)
        return
    layers = {key: recipe for key, recipe in all_recipes().items() if not recipe.published}
    table = Table(_never_cut("recipe", layers), "what it is", box=None)
    for key, recipe in layers.items():
        table.add_row(key, escape(recipe.about))
    console.print(table)
    console.print(_published_table())
    console.print(
        "Recipes are layers: --recipe cifar100-2500-mu3,semco,no-grouping puts three of them on top of each other; a "
        "method is a recipe too. 'cpu' after a cell makes it small enough for two cores, which is not published.",
        style="dim",
    )


def _published_table() -> Table:
    """Return the cells of the paper's tables with the published error of each method."""
    from semco.config.recipes import published_error
    from semco.config.recipes import recipes as all_recipes

    rows = [
        (f"{cell},{method}", published_error([cell, method]))
        for cell, recipe in all_recipes().items()
        if recipe.published
        for method in (*recipe.published, "semco_plus")
    ]
    table = Table(_never_cut("cell of the paper", [name for name, _ in rows]), "published error, %", box=None)
    for name, error in rows:
        table.add_row(name, error)
    return table


def _never_cut(title: str, names: object) -> Column:
    """Return a column whose names are never shortened, because they are there to be typed."""
    return Column(title, no_wrap=True, min_width=max(map(len, names)))  # type: ignore[call-overload]


@with_options(RunOptions)
def config(
    options: RunOptions,
    *,
    method: MethodName = None,
    recipe: RecipeNames = None,
    file: Annotated[Path | None, typer.Option("--config", help="A YAML file of configuration values.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what is asked for as JSON.")] = False,
) -> None:
    """Show every field: what is asked for, what is used for these data on this machine, and why."""
    from semco.config import flat_fields, merge_layers
    from semco.config.layers import layers_of, origins
    from semco.experiment.plan import with_default_minutes

    if not (recipe or file or options.backbone):
        recipe = default_recipe(options.data)
    layers = layers_of(recipe, file, options.values(method=method), options.settings)
    request = with_default_minutes(merge_layers(layers)) if options.data else merge_layers(layers)
    if as_json:
        typer.echo(json.dumps(request.model_dump(mode="json")))
        return
    set_by, resolution = origins(layers), _resolution(request)
    used = {} if resolution is None else flat_fields(resolution.config.model_dump(mode="json"))
    reasons = {} if resolution is None else resolution.reasons
    fields = flat_fields(request.model_dump(mode="json"))
    others = (Column(title, overflow="fold") for title in ("asked for", "used", "why"))
    table = Table(_never_cut("field", fields), *others, box=None, padding=(0, 1, 0, 0))
    for name, value in fields.items():
        asked, why = json.dumps(value), reasons.get(name, set_by.get(name, ""))
        now = json.dumps(used[name]) if name in used and used[name] != value else ""
        table.add_row(name, asked, now, why, style="" if now or name in set_by else "dim")
    Console(highlight=False).print(table)


def _resolution(request: Config) -> Resolution | None:
    """Return what a request leads to; without its data only the request is known, and the reason is printed."""
    from semco.errors import UserError
    from semco.experiment.loading import load_request
    from semco.resolve import Machine, resolve
    from semco.training.observer import NullObserver

    try:
        loaded = load_request(request, NullObserver())
    except UserError as error:
        note = f"only what is asked for can be shown, because the data cannot be read: {error}"
        Console(stderr=True, soft_wrap=True).print(note, style="dim", markup=False, highlight=False)
        return None
    return resolve(request, loaded.facts, Machine.of_this_process())
