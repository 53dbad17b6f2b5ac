"""Damage to bytes and to values, chosen by a random generator."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

NASTY_NUMBERS = (0, -1, 1, 2**31, 2**63, 2**70, -(2**63) - 1, 10**18, 1e308, -0.0, 1e-320, 0.5)
NASTY_TEXT = (
    "",
    " ",
    "\x00",
    "\ud800",
    "a" * 5000,
    "../../etc/passwd",
    "~",
    "é",
    "日本",
    "\u202e",
    "nan",
    "null",
    "--x",
)
NASTY_JSON = (
    "", "[]", "{}", "null", "5", '"text"', "true", "NaN", "{", '{"a": 1', "[" * 100_000, '{"a":' * 50_000, "1" * 6000,
    '{"step": 1e999}', '{"names": 5}', '{"format": 1}', '{"version": 1}', "\ufeff{}", '{"a": "\\ud800"}',
)  # fmt: skip


def flip(random: Random, data: bytes) -> bytes:
    """Change one to twelve bytes."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 4, 12)) if data else 0):
        changed[random.randrange(len(changed))] ^= random.randrange(1, 256)
    return bytes(changed)


def flip_early(random: Random, data: bytes) -> bytes:
    """Change bytes among the first 100, where headers are."""
    return flip(random, data[:100]) + data[100:]


def truncate(random: Random, data: bytes) -> bytes:
    return data[: random.randrange(len(data) + 1)]


def insert(random: Random, data: bytes) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] + random.randbytes(random.choice((1, 2, 4, 100))) + data[at:]


def remove(random: Random, data: bytes) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] + data[at + random.choice((1, 2, 4, 100)) :]


def repeat(random: Random, data: bytes) -> bytes:
    start, length = random.randrange(len(data) + 1), random.choice((1, 8, 200))
    return data[: start + length] + data[start:]


def fill(random: Random, data: bytes) -> bytes:
    """Overwrite a stretch with one value, as a disk that lost a block does."""
    at, length = random.randrange(len(data) + 1), min(len(data), random.choice((4, 64, 4096)))
    return (data[:at] + bytes([random.choice((0, 255))]) * length)[: len(data)] + data[at + length :]


def replace(random: Random, data: bytes) -> bytes:
    """Return something else altogether."""
    return random.choice(
        (b"", b"\x00" * len(data), random.randbytes(len(data)), b"PK\x03\x04", b"\x1f\x8b\x08", b"%PDF-")
    )


BYTE_DAMAGE: tuple[Callable[[Random, bytes], bytes], ...] = (
    flip, flip, flip_early, flip_early, truncate, truncate, insert, remove, repeat, fill, replace,
)  # fmt: skip


def damage(random: Random, data: bytes, others: Sequence[bytes] = ()) -> bytes:
    """Return the bytes damaged one to three times; sometimes the end of another file is spliced in."""
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        if others and random.random() < 0.1:
            other = random.choice(others)
            data = data[: random.randrange(len(data) + 1)] + other[random.randrange(len(other) + 1) :]
        else:
            data = random.choice(BYTE_DAMAGE)(random, data)
    return data


def nasty_value(random: Random) -> Any:
    """Return a value of JSON that is seldom the right one."""
    plain = (*NASTY_NUMBERS, *NASTY_TEXT, None, True, False, [], {}, [[]], {"a": 1}, [None], ["a"], [0] * 50)
    return random.choice((*plain, float("nan"), float("inf")))


def edit_json(random: Random, text: str) -> str:
    """Return JSON text with one value changed, removed or replaced by a nasty one."""
    value = json.loads(text)
    holder, key = value, None
    while isinstance(holder, dict | list) and holder:
        key = random.choice(list(holder)) if isinstance(holder, dict) else random.randrange(len(holder))
        if not isinstance(holder[key], dict | list) or not holder[key] or random.random() < 0.3:
            break
        holder = holder[key]
    if key is None:
        return random.choice(NASTY_JSON)
    if random.random() < 0.2:
        del holder[key]
    else:
        holder[key] = nearby(random, holder[key]) if random.random() < 0.5 else nasty_value(random)
    return json.dumps(value)


def nearby(random: Random, value: Any) -> Any:
    """Return a value of the same type that is a little different."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + random.choice((1, -1, 2))
    if isinstance(value, str):
        return value[:-1] + "x"
    if isinstance(value, list):
        return random.sample(value, len(value)) if random.random() < 0.5 else value[:-1]
    return value


def write_text(path: Path, text: str) -> None:
    """Write text that need not be valid UTF-8."""
    path.write_bytes(text.encode(errors="surrogatepass"))
