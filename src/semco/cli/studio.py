"""``semco studio``: name classes, label photos, train, review and export on a local web page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer
from rich.console import Console


def studio(
    photos: Path = typer.Argument(..., help="A folder of photos; its subfolders are looked through."),
    classes: str = typer.Option(None, help="Classes to begin with: a,b,c."),
    project: Path = typer.Option(
        None, help="Folder for labels, thumbnails, runs and exports.", show_default="./PHOTOS-studio"
    ),
    port: int = typer.Option(None, min=1, max=65535, help="Port of the page.", show_default="any free port"),
    no_browser: bool = typer.Option(False, "--no-browser", help="Only print the address of the page."),
    setting: list[str] = typer.Option(
        None, "--set", help="dotted.key=value: any field that `semco settings` lists, for every round of training."
    ),
) -> None:
    """Open a local web page to name classes, label a few photos, train, review, correct and export."""
    names = [name.strip() for name in classes.split(",") if name.strip()] if classes else []
    folder = project or Path(f"{photos.absolute().name or 'photos'}-studio")
    open_studio(photos, folder, names, setting or (), port, not no_browser)


def open_studio(
    photos: Path, folder: Path, classes: Sequence[str], settings: Sequence[str], port: int | None, opens_browser: bool
) -> None:
    """Show a project until Ctrl-C."""
    from semco.studio.project import Project
    from semco.studio.server import serve

    console = Console(stderr=True, soft_wrap=True, markup=False, highlight=False)

    def show(url: str) -> None:
        console.print(f"{len(project.photos):,} photos; everything is kept in {project.folder}")
        if project.found:
            console.print("{labels:,} labels in {classes:,} folders found".format_map(project.found))
        if project.photos.test:
            console.print(f"{len(project.photos.test):,} photos in test/ are kept apart: they show how good a model is")
        console.print(f"open {url}   (Ctrl-C ends the Studio; nothing is lost)")

    with Project(photos, folder, classes, settings, is_live=True) as project:
        serve(project, port, show, opens_browser)
