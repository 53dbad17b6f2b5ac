"""Options that several commands share: a data class declares them once, a decorator adds them to a command."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any, get_type_hints


def with_options(options: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds the fields of a data class to the signature of a command.

    The command receives them as one object, its first argument. A field without a default is required.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(command).parameters.values())[1:]
        own_types = get_type_hints(command, include_extras=True)
        shared = list(inspect.signature(options).parameters.values())
        shared_types = get_type_hints(options, include_extras=True)
        parameters = [
            each.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=types[each.name])
            for group, types in ((shared, shared_types), (own, own_types))
            for each in group
        ]
        names = [field.name for field in fields(options)]

        def run(**values: Any) -> None:
            command(options(**{name: values.pop(name) for name in names}), **values)

        run.__name__, run.__doc__ = command.__name__, command.__doc__
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        return run

    return decorate
