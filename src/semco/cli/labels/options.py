"""Options of several ``semco labels`` commands, and what they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from semco.errors import UserError

if TYPE_CHECKING:
    from semco.groups.grouping import Groups
    from semco.labels.embeddings import LabelEmbeddings
    from semco.labels.sources import StoreSource

Classes = Annotated[
    list[str],
    typer.Argument(
        metavar="NAMES.txt|FOLDER|DATASET|NAME NAME...",
        help="A file with one class name per line, a folder of class folders, a data set such as cifar100; "
        "or two or more class names.",
    ),
]
Vectors = Annotated[
    str | None,
    typer.Option(
        metavar="plain|FOLDER",
        help="The store of the paper's build, or one made by `semco labels build`; the default is the bundled store.",
    ),
]
Aliases = Annotated[
    list[str] | None,
    typer.Option("--alias", metavar="NAME=TERM", help="The term of a class name (labels.aliases); repeatable."),
]
Eps = Annotated[
    float | None,
    typer.Option(
        help="Largest cosine distance between neighbours in a group; 0 gives no groups. Default: the source's."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def store_from_options(vectors: str | None, alias: Sequence[str] | None = None) -> StoreSource:
    """Return the store that ``--vectors`` names, or the bundled one."""
    from semco.labels.sources import store_source

    return store_source(vectors, parse_aliases(alias))


@dataclass(frozen=True)
class SourceOptions:
    """The class names, and the options that choose the source of their label vectors."""

    names: Classes
    vectors: Vectors = None
    alias: Aliases = None
    attributes: Annotated[
        Path | None, typer.Option(help="Class attributes (.csv, .txt, .npy) to use instead of a store.")
    ] = None
    matrix: Annotated[
        Path | None, typer.Option("--matrix", help="Your own label vectors (.npy, .csv), one row per class.")
    ] = None
    encoder: Annotated[
        str | None,
        typer.Option(help="A text encoder: a folder or hub name of transformers, or use (semco[sentences])."),
    ] = None
    prompt: Annotated[
        list[str] | None,
        typer.Option("--prompt", help='A prompt for the encoder, such as "a photo of a {}."; repeatable.'),
    ] = None

    def embeddings(self) -> LabelEmbeddings:
        """Return the label vectors of the class names, from the chosen source or the bundled store."""
        from semco.config import LabelsConfig
        from semco.data.class_names import class_names
        from semco.labels import label_source

        sources = {
            "plain" if self.vectors == "plain" else "store": self.vectors,
            "attributes": self.attributes,
            "matrix": self.matrix,
            "encoder": self.encoder,
        }
        kinds = [kind for kind, value in sources.items() if value is not None]
        if len(kinds) > 1:
            raise UserError("give only one of --vectors, --attributes, --matrix and --encoder.")
        values: dict[str, Any] = {
            "source": kinds[0] if kinds else "bundled",
            "path": None if kinds == ["plain"] else self.vectors or self.attributes or self.matrix,
            "encoder": self.encoder,
            "aliases": parse_aliases(self.alias),
        }
        if self.prompt:
            values["prompts"] = tuple(self.prompt)
        classes = class_names(self.names[0]) if len(self.names) == 1 else tuple(self.names)
        return label_source(LabelsConfig(**values)).vectors(classes)


@dataclass(frozen=True)
class GroupOptions(SourceOptions):
    """`SourceOptions`, and those that decide which classes share a group."""

    eps: Eps = None
    group: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME,NAME", help="Classes to put into one group (labels.together); repeatable."),
    ] = None
    apart: Annotated[
        list[str] | None, typer.Option(metavar="NAME,NAME", help="Classes to keep apart (labels.apart); repeatable.")
    ] = None

    def groups(self) -> tuple[LabelEmbeddings, Groups]:
        """Return the label vectors and the groups of the class names."""
        from semco.groups.grouping import group_classes

        embeddings = self.embeddings()
        corrections = parse_names(self.group, "--group"), parse_names(self.apart, "--apart")
        return embeddings, group_classes(embeddings, self.eps, *corrections)


def parse_aliases(texts: Sequence[str] | None) -> dict[str, str]:
    """Return the values NAME=TERM of ``--alias`` as name -> term."""
    aliases = {}
    for text in texts or ():
        name, equals, term = text.rpartition("=")
        if not equals or not name.strip() or not term.strip():
            raise UserError(f"--alias takes NAME=TERM, for example 'aquarium_fish=goldfish', not {text!r}.")
        aliases[name.strip()] = term.strip()
    return aliases


def parse_names(texts: Sequence[str] | None, option: str) -> tuple[tuple[str, ...], ...]:
    """Return the values NAME,NAME of an option as class names."""
    entries = tuple(tuple(part.strip() for part in text.split(",") if part.strip()) for text in texts or ())
    for text, entry in zip(texts or (), entries, strict=True):
        if len(entry) < 2:
            raise UserError(f"{option} takes two or more class names, for example 'cat,dog', not {text!r}.")
    return entries


def parse_relations(text: str) -> dict[str, float]:
    """Return the value of ``--relations``, such as "IsA,Synonym=0.5", as relation -> weight."""
    weights = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, weight = part.partition("=")
        try:
            weights[name.strip()] = float(weight or 1.0)
        except ValueError:
            raise UserError(f"--relations: {part!r} has no number after the =; write, for example, IsA=0.5.") from None
    return weights
