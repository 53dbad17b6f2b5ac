"""``semco labels``: look class names up, group them, and build vector stores."""

from __future__ import annotations

from semco.cli.app import App
from semco.cli.labels import build, groups

app = App(help="Look class names up, group them, and build vector stores.", no_args_is_help=True)
app.command()(groups.lookup)
app.command()(groups.nearest)
app.command()(groups.groups)
app.command()(build.build)
app.command()(build.fetch)
