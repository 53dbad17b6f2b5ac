"""Changes of the classes that a page asks for; a change describes an action, so it can be applied to any table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from semco.errors import UserError, brief
from semco.studio.journal import ClassTable, NamedClass

MOST_DIGITS = 15  # of a number in an address, which browsers hold exactly


class ChangedElsewhereError(UserError):
    """A change of something that another tab has changed in the meantime."""


def whole_number(value: Any) -> int:
    """Return a number of a request, which may be written as text; anything else is a `UserError`."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= MOST_DIGITS:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise UserError(f"a number is expected, not {brief(value, 40)}.")


def change_classes(table: ClassTable, values: Mapping[str, Any]) -> ClassTable:
    """Return the classes after a change that a page asks for."""
    action = values.get("action")
    if action == "add":
        return table.add(*_names(values))
    number = _number(values, "class")
    if action == "rename":
        return table.rename(number, _text(values, "name"))
    if action == "alias":
        return table.set_alias(number, _text(values, "alias"))
    if action == "remove":
        return table.remove(number)
    if action == "move":
        return table.move(number, _number(values, "place"))
    if action == "pair":
        return table.pair(number, _number(values, "other"), _text(values, "how"))
    raise _not_understood(f"there is no action {brief(action, 40)}.")


def check_seen(seen: ClassTable, now: ClassTable, values: Mapping[str, Any]) -> None:
    """Refuse to change a class, or a choice about a pair, that differs from what the page shows."""
    action, is_same = values.get("action"), True
    if action == "pair":
        first, second = sorted((_number(values, "class"), _number(values, "other")))
        is_same = seen.pairs.get((first, second)) == now.pairs.get((first, second))
    elif action in ("rename", "alias", "remove"):
        number = _number(values, "class")
        is_same = _find(seen, number) == _find(now, number)
    if not is_same:
        raise ChangedElsewhereError("another tab has changed this; it is shown now. Do it again to change it.")


def _find(table: ClassTable, number: int) -> NamedClass | None:
    return next((each for each in table.classes if each.number == number), None)


def _number(values: Mapping[str, Any], name: str) -> int:
    try:
        return whole_number(values.get(name))
    except UserError as error:
        raise _not_understood(f"{name}: {error}") from None


def _text(values: Mapping[str, Any], name: str) -> str:
    if not isinstance(value := values.get(name), str):
        raise _not_understood(f"{name}: a text is expected, not {brief(value, 40)}.")
    return value


def _names(values: Mapping[str, Any]) -> list[str]:
    names = values.get("names")
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise _not_understood(f"names: a list of texts is expected, not {brief(names, 40)}.")
    return names


def _not_understood(reason: str) -> UserError:
    return UserError(f"the page asked for a change that is not understood: {reason}")
