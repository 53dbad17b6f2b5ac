"""The check of a folder as one HTML page with thumbnails: no network, no scripts, light and dark."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from semco.data.decode import DECODE_ERRORS, decode
from semco.files import readable_name, write_text
from semco.inspection.check import Check
from semco.inspection.duplicates import Duplicates
from semco.inspection.facts import KINDS, count_kinds
from semco.report.sections import page_template

THUMBNAIL, QUALITY = 112, 80
# Most groups of duplicates, images of a group, of a kind and of a class that are shown, and classes with images.
MOST_GROUPS, MOST_MEMBERS, MOST_OF_KIND, MOST_OF_CLASS, MOST_CLASSES = 12, 4, 6, 4, 60
# An exact name needs no remark.
CERTAIN = ("exact", "alias")


def write_page(check: Check, out: Path) -> Path:
    """Write the page to ``out`` and return ``out``."""
    write_text(out, readable_name(page_template("check.html", "semco.inspection").render(_context(check))))
    return out


def _context(check: Check) -> dict[str, Any]:
    counts = check.counts()
    kinds = count_kinds(check.facts)
    return {
        "title": Path(check.source).name or check.source,
        "verdict": _verdict(check),
        "tiles": _tiles(check),
        "groups": [
            ("Leaks", "The same picture is in the test images and elsewhere, so the test is too easy.", check.leaks),
            ("Different labels", "The same picture has labels of different classes.", check.conflicts),
            ("Duplicates", "The same picture occurs more than once.", check.copies),
        ],
        "show_groups": lambda groups: [_group(check, each) for each in groups[:MOST_GROUPS]],
        "most_groups": MOST_GROUPS,
        "problems": [(readable_name(check.entry(i).name), why) for i, why in check.problems()[:50]],
        "num_problems": len(check.problems()),
        "kinds": [
            _kind(check, kind, count) for kind, count in kinds.items() if kind not in ("unreadable", "truncated")
        ],
        "places": list(next(iter(counts.values()))),
        "classes": [_class_row(check, k, counts) for k in range(len(check.listing.class_names))],
        "unlabelled": counts[""],
        "notes": check.notes,
        "advice": check.advice.lines(check.listing.class_names),
    }


def _verdict(check: Check) -> str:
    parts = [
        ("leaks into the test images", len(check.leaks)),
        ("pictures with labels of different classes", len(check.conflicts)),
        ("unreadable images", len(check.problems())),
        ("other pictures that occur more than once", len(check.copies)),
    ]
    found = [f"{text}: {count:,}" for text, count in parts if count]
    text = "; ".join(found)
    return f"{text[:1].upper()}{text[1:]}." if found else "Every image can be read, and none occurs twice."


def _tiles(check: Check) -> list[tuple[str, str]]:
    return [
        ("Classes", f"{len(check.listing.class_names):,}"),
        *((f"Images: {place}", f"{count:,}") for place, count in check.totals().items()),
        ("Median shorter side", f"{check.advice.median_side} px"),
    ]


def _group(check: Check, group: Duplicates) -> dict[str, Any]:
    return {
        "is_exact": group.is_exact,
        "images": [
            _picture(check, i, readable_name(check.describe(i)).replace("_", " "))
            for i in check.members(group)[:MOST_MEMBERS]
        ],
        "more": max(0, len(group.members) - MOST_MEMBERS),
    }


def _kind(check: Check, kind: str, count: int) -> dict[str, Any]:
    chosen = [i for i, each in enumerate(check.facts) if kind in each.kinds][:MOST_OF_KIND]
    return {
        "name": kind,
        "meaning": f"{count:,} ({KINDS[kind]})",
        "images": [_picture(check, i, f"{check.facts[i].width} x {check.facts[i].height}") for i in chosen],
    }


def _class_row(check: Check, number: int, counts: dict[str, dict[str, int]]) -> dict[str, Any]:
    name = check.listing.class_names[number]
    match = check.names[number] if check.names else None
    labels = check.listing.train.labels
    chosen: Sequence[int] = ()
    if number < MOST_CLASSES:
        chosen = [i for i, label in enumerate(labels) if label == number and check.facts[i].is_readable]
    return {
        "name": name,
        "term": match.term if match else "",
        "is_uncertain": match is not None and match.route.split(" ")[0] not in CERTAIN,
        "route": match.route if match else "",
        "counts": list(counts[name].values()),
        "wanted": check.advice.wanted[number],
        "images": [_picture(check, i, "") for i in chosen[:MOST_OF_CLASS]],
    }


def _picture(check: Check, position: int, caption: str) -> dict[str, str]:
    name = readable_name(check.entry(position).name)
    return {"source": _thumbnail(check, position), "name": Path(name).name, "path": name, "caption": caption}


def _thumbnail(check: Check, position: int) -> str:
    """Return the centre of an image as a data URI; empty if it cannot be read any more."""
    try:
        pixels = decode(check.entry(position), THUMBNAIL)
    except DECODE_ERRORS:
        return ""
    buffer = BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=QUALITY)
    return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"
