"""``semco labels``: what class names mean, and how the vectors that say so are made."""

from __future__ import annotations

import json as json_format
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from semco.labels.embeddings import LabelEmbeddings
    from semco.labels.groups import Groups
    from semco.labels.readers.stream import Report
    from semco.labels.sources import StoreSource
    from semco.labels.store import VectorStore

app = typer.Typer(
    help="What class names mean: look them up, group them, choose eps, and build the vectors behind it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

Classes = Annotated[
    str,
    typer.Argument(
        metavar="NAMES.txt|DATASET",
        help="A file with a class name a line, a folder of class folders, or a data set such as cifar100.",
    ),
]
Vectors = Annotated[Path | None, typer.Option(help="A store made by `semco labels build`, not the bundled one.")]
Aliases = Annotated[list[str] | None, typer.Option("--alias", metavar="NAME=TERM", help="Map a name by hand.")]
Attributes = Annotated[Path | None, typer.Option(help="Class attributes (.csv, .txt, .npy) in place of a store.")]
MatrixFile = Annotated[Path | None, typer.Option("--matrix", help="Your own vectors (.npy, .csv), a row a class.")]
Encoder = Annotated[str | None, typer.Option(help="A text encoder of transformers: a folder or a name on the hub.")]
Prompts = Annotated[list[str] | None, typer.Option("--prompt", help='For the encoder, such as "a photo of a {}."')]
Eps = Annotated[float | None, typer.Option(help="Largest cosine distance between neighbours; 0: no groups.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@app.command()
def lookup(
    names: Annotated[list[str], typer.Argument(help="Class names.")],
    vectors: Vectors = None,
    alias: Aliases = None,
    near: Annotated[int, typer.Option(min=0, help="How many nearest terms to show.")] = 4,
    json: AsJson = False,
) -> None:
    """The term each name is matched to, by which route, and the terms nearest to it."""
    from semco.errors import UserError

    source = _store_source(vectors, alias)
    found = {name: source.find(name) for name in names}
    rows = [(name, match, source.nearest(match, near)) for name, match in found.items() if match is not None]
    if json:
        _print_json({name: {"term": m.term, "route": m.how, "nearest": dict(close)} for name, m, close in rows})
    else:
        table = _table("name", "term", "route", "nearest terms")
        for name, match, close in rows:
            _add(table, name, match.term, match.how, ", ".join(f"{term} {cosine:.2f}" for term, cosine in close))
        Console().print(table)
    missing = [name for name, match in found.items() if match is None]
    if missing:
        raise UserError(source.lookup.not_found(missing))


@app.command()
def nearest(
    term: Annotated[str, typer.Argument(help="A term or class name.")],
    vectors: Vectors = None,
    count: Annotated[int, typer.Option("--count", "-n", min=1)] = 20,
    json: AsJson = False,
) -> None:
    """The terms with the largest cosine to one."""
    from semco.errors import UserError

    source = _store_source(vectors, None)
    match = source.find(term)
    if match is None:
        raise UserError(source.lookup.not_found([term]))
    close = source.nearest(match, count)
    if json:
        _print_json({"term": match.term, "route": match.how, "nearest": dict(close)})
        return
    console = Console()
    console.print(f"{escape(match.term)} ({escape(match.how)})", style="bold")
    table = _table("term", "cosine", "")
    for other, cosine in close:
        _add(table, other, f"{cosine:.3f}", "█" * round(30 * max(cosine, 0)))
    console.print(table)


@app.command()
def groups(
    names: Classes,
    eps: Eps = None,
    vectors: Vectors = None,
    alias: Aliases = None,
    attributes: Attributes = None,
    matrix: MatrixFile = None,
    encoder: Encoder = None,
    prompt: Prompts = None,
    json: AsJson = False,
) -> None:
    """The groups of classes that are alike."""
    from semco.labels.groups import group

    embeddings = _embeddings(names, vectors, alias, attributes, matrix, encoder, prompt)
    found = group(embeddings, "auto" if eps is None else eps)
    _print_notes((*embeddings.notes, *found.notes))
    if json:
        _print_json(_groups_json(embeddings, found))
    else:
        _print_groups(embeddings, found, chosen="the source's own" if eps is None else "given")


@app.command()
def plot(
    names: Classes,
    out: Annotated[Path, typer.Option(help="The picture to write: .png, .svg or .pdf.")] = Path("labels.png"),
    eps: Eps = None,
    vectors: Vectors = None,
    alias: Aliases = None,
    attributes: Attributes = None,
    matrix: MatrixFile = None,
    encoder: Encoder = None,
    prompt: Prompts = None,
) -> None:
    """One picture: a dendrogram with the eps line, the similarity matrix and a map of the classes."""
    from semco.labels.groups import group
    from semco.labels.plot import plot as draw

    embeddings = _embeddings(names, vectors, alias, attributes, matrix, encoder, prompt)
    found = group(embeddings, "auto" if eps is None else eps)
    draw(embeddings, found, out)
    _print_notes((*embeddings.notes, *found.notes))
    Console().print(f"{found.count} groups of {len(found.names)} classes at eps {found.eps:.3g}: {escape(str(out))}")


@app.command()
def tune(
    names: Classes,
    eps: Annotated[list[float] | None, typer.Option(help="Try this one; may be given again.")] = None,
    vectors: Vectors = None,
    alias: Aliases = None,
    attributes: Attributes = None,
    matrix: MatrixFile = None,
    encoder: Encoder = None,
    prompt: Prompts = None,
    json: AsJson = False,
) -> None:
    """What each eps would group, and the suggested one (the largest gap)."""
    from dataclasses import asdict

    from semco.labels.tune import tune as sweep

    embeddings = _embeddings(names, vectors, alias, attributes, matrix, encoder, prompt)
    found = sweep(embeddings, tuple(eps) if eps else None)
    _print_notes(embeddings.notes)
    if json:
        settings = [asdict(setting) for setting in found.settings]
        _print_json({"suggested": found.suggested, "default": found.default, "settings": settings})
        return
    console = Console()
    console.print(escape(embeddings.source), style="bold")
    table = _table("eps", "groups", "of more than one", "largest", "joins")
    for row in found.settings:
        joins = "; ".join(" + ".join(members) for members in row.joined)
        _add(table, f"{row.eps:g}", str(row.groups), str(row.together), str(row.largest), _cut(joins))
    console.print(table)
    console.print(f"Suggested eps (largest gap): {found.suggested:.3f}. The source's own: {found.default:.3f}.")


@app.command()
def build(
    conceptnet: Annotated[Path, typer.Option(help="ConceptNet assertions (.csv, .gz).")],
    out: Annotated[Path, typer.Option(help="The store's folder.")],
    glove: Annotated[Path | None, typer.Option(help="GloVe text (.txt, .gz, .zip).")] = None,
    word2vec: Annotated[Path | None, typer.Option(help="word2vec binary (.bin, .gz).")] = None,
    relations: Annotated[
        str | None, typer.Option(help="Relations to keep, with commas between; IsA=0.5 weighs one.")
    ] = None,
    dim: Annotated[int, typer.Option(help="Size of the vectors.")] = 128,
    iterations: Annotated[int | None, typer.Option(help="Rounds of retrofitting.")] = None,
    max_words: Annotated[int | None, typer.Option(help="At most so many terms, the most frequent.")] = None,
) -> None:
    """Build a store from raw GloVe and word2vec vectors and the ConceptNet graph; a killed build goes on."""
    from dataclasses import replace

    from semco.labels.build import RELATIONS, Recipe
    from semco.labels.build import build as make

    recipe = replace(Recipe(), dim=dim, **({} if iterations is None else {"iterations": iterations}))
    chosen = RELATIONS if relations is None else _relations(relations)
    with _stages() as report:
        store = make(glove, word2vec, conceptnet, out, chosen, recipe, max_words, report=report)
    _print_store(store)


@app.command(name="import")
def import_store(
    numberbatch: Annotated[Path, typer.Argument(help="ConceptNet Numberbatch (.txt, .gz).")],
    out: Annotated[Path, typer.Option(help="The store's folder.")],
    dim: Annotated[int, typer.Option(help="Size of the vectors.")] = 128,
    max_words: Annotated[int | None, typer.Option(help="At most so many terms, the first of the file.")] = None,
) -> None:
    """Make a store of a published ConceptNet Numberbatch file."""
    from semco.labels.build import import_numberbatch

    with _stages() as report:
        store = import_numberbatch(numberbatch, out, dim, max_words, report)
    _print_store(store)


@app.command()
def fetch(
    what: Annotated[str, typer.Argument(metavar="glove|word2vec|conceptnet|numberbatch", help="What to download.")],
    to: Annotated[Path, typer.Option(help="The folder to put it into.")],
) -> None:
    """Download an official file; run it again to go on where it broke off."""
    from semco.labels.fetch import SOURCES
    from semco.labels.fetch import fetch as download

    with _stages() as report:
        path = download(what, to, report)
    Console().print(f"{escape(str(path))}: {path.stat().st_size:,} bytes, licence {SOURCES[what].licence}")


@app.command()
def score(
    vectors: Vectors = None,
    eps: Eps = None,
    looks: Annotated[
        Path | None, typer.Option(help="How alike the classes look, a .npy made by scripts/train_looks.py.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Measures of a store on CIFAR-100's names: the paper's groups, superclasses, and looks."""
    from dataclasses import asdict

    from semco.labels.score import score as measure

    found = measure(_store_source(vectors, None), "auto" if eps is None else eps, looks)
    if json:
        _print_json(asdict(found))
        return
    console = Console()
    console.print(f"CIFAR-100's names at eps {found.eps:.3g}", style="bold")
    table = _table("measure", "value")
    _add(table, "pairwise F1 with the paper's groups", f"{found.f1:.2f}")
    _add(table, "pairs grouped together", str(found.pairs))
    _add(table, "of them inside one superclass", f"{found.inside:.0%}")
    if found.looks is not None and found.alike is not None:
        _add(table, "rank correlation with looks", f"{found.looks:.3f}")
        _add(table, "precision at finding look-alikes", f"{found.alike:.3f}")
    console.print(table)
    for members in found.groups:
        console.print(f"  {', '.join(members)}", highlight=False)


def _relations(text: str) -> dict[str, float]:
    """ "IsA,Synonym=0.5" as weights."""
    from semco.errors import UserError

    weights = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, weight = part.partition("=")
        try:
            weights[name.strip()] = float(weight or 1.0)
        except ValueError:
            raise UserError(f"--relations: {part!r} has no number after the =.") from None
    return weights


def _print_store(store: VectorStore) -> None:
    where = escape(str(store.folder))
    Console().print(f"{where}: {store.size:,} terms, {store.dim}-d, default eps {store.default_eps:.3g}")


def _store_source(vectors: Path | None, alias: Sequence[str] | None) -> StoreSource:
    from semco.labels.sources import store_source

    return store_source(vectors, _aliases(alias))


def _embeddings(
    names: str,
    vectors: Path | None,
    alias: Sequence[str] | None,
    attributes: Path | None,
    matrix: Path | None,
    encoder: str | None,
    prompt: Sequence[str] | None,
) -> LabelEmbeddings:
    """The vectors of a list of names, from the one source that was given or the bundled store."""
    from semco.config import LabelsConfig
    from semco.data.class_names import class_names
    from semco.errors import UserError
    from semco.labels import label_source

    classes = class_names(names)
    given = {"store": vectors, "attributes": attributes, "matrix": matrix, "encoder": encoder}
    kinds = [kind for kind, value in given.items() if value is not None]
    if len(kinds) > 1:
        raise UserError("give one of --vectors, --attributes, --matrix and --encoder, not several.")
    values: dict[str, Any] = {
        "source": kinds[0] if kinds else "bundled",
        "aliases": _aliases(alias),
        "encoder": encoder,
    }
    values["path"] = vectors or attributes or matrix
    if prompt:
        values["prompts"] = tuple(prompt)
    return label_source(LabelsConfig(**values)).vectors(classes)


def _aliases(given: Sequence[str] | None) -> dict[str, str]:
    from semco.errors import UserError

    aliases = {}
    for text in given or ():
        name, equals, term = text.rpartition("=")
        if not equals or not name.strip() or not term.strip():
            raise UserError(f"--alias takes NAME=TERM, for example 'aquarium_fish=goldfish', not {text!r}.")
        aliases[name.strip()] = term.strip()
    return aliases


def _groups_json(embeddings: LabelEmbeddings, found: Groups) -> dict[str, Any]:
    matched = zip(embeddings.names, embeddings.terms, embeddings.routes, strict=True)
    terms = {name: {"term": term, "route": route} for name, term, route in matched}
    return {"eps": found.eps, "groups": [list(members) for members in found.members], "terms": terms}


def _print_groups(embeddings: LabelEmbeddings, found: Groups, chosen: str) -> None:
    from semco.labels.lookup import spell

    console = Console()
    matched = zip(embeddings.names, embeddings.terms, embeddings.routes, strict=True)
    other = [row for row in matched if "+" in row[1] or spell(row[0]) != spell(row[1])]
    if other:
        console.print("Names with another term than their own", style="bold")
        table = _table("name", "term", "route")
        for row in other:
            _add(table, *row)
        console.print(table)
    together = [members for members in found.members if len(members) > 1]
    reach = f"eps {found.eps:.3g} ({chosen})"
    title = (
        f"Groups of more than one class at {reach}" if together else f"No two classes are within {reach} of each other"
    )
    console.print(title, style="bold")
    table = _table("", "classes")
    for number, members in enumerate(together, 1):
        _add(table, str(number), ", ".join(members))
    if together:
        console.print(table)
    alone = len(found.members) - len(together)
    console.print(
        f"{len(found.names)} classes, {found.count} groups, {alone} classes alone. {escape(embeddings.source)}."
    )


def _table(*columns: str) -> Table:
    return Table(*columns, box=None, padding=(0, 2, 0, 0), header_style="dim")


def _add(table: Table, *cells: str) -> None:
    table.add_row(*map(escape, cells))


def _cut(text: str, most: int = 90) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _print_notes(notes: Sequence[str]) -> None:
    for note in notes:
        Console(stderr=True, soft_wrap=True).print(f"[yellow]note:[/] {escape(note)}", highlight=False)


def _print_json(value: Any) -> None:
    typer.echo(json_format.dumps(value, ensure_ascii=False))


@contextmanager
def _stages() -> Iterator[Report]:
    """A bar for each stage that reports."""
    from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:<32}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=Console(stderr=True)) as progress:

        def report(stage: str, done: int, total: int | None) -> None:
            if stage not in tasks:
                tasks[stage] = progress.add_task(stage, total=total)
            progress.update(tasks[stage], completed=done, total=total)

        yield report
