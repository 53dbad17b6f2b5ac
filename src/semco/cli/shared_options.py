"""Options that several commands share: a data class declares them once, a decorator adds them to a command."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any, get_type_hints


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
