"""Read YAML that comes from a user: every malformed text is a `yaml.YAMLError`, and its size is limited.

PyYAML's own constructors raise many kinds of errors (``!!int abc`` a `ValueError`, ``!!bool maybe`` a `KeyError`),
nested brackets exhaust the stack, and aliases can make a short text into a value of any size.
"""

from __future__ import annotations

import copy
import re
from functools import lru_cache
from typing import Any

import yaml

from semco.errors import UserError

LONGEST_TEXT = 2**20  # characters
MOST_VALUES = 100_000  # with every alias replaced by the values it stands for
DEEPEST = 50  # nested lists and mappings
INTEGER_BITS = 64

# Errors of PyYAML's constructors for a scalar that does not have the form of its type.
_CONSTRUCTOR_ERRORS = (ValueError, LookupError, AttributeError, TypeError, OverflowError)


def load_yaml(text: str) -> Any:
    """Return the value of a YAML text; text that is malformed, too long or too deep raises a `yaml.YAMLError`."""
    if len(text) > LONGEST_TEXT:
        raise yaml.YAMLError(f"it has {len(text):,} characters, and at most {LONGEST_TEXT:,} are read")
    return copy.deepcopy(_load(text))


def read_yaml(text: str, where: str = "the configuration") -> dict[str, Any]:
    """Return a YAML mapping of sections as plain values."""
    try:
        values = load_yaml(text)
    except yaml.YAMLError as error:
        raise UserError(f"{where} is not valid YAML: {' '.join(str(error).split())}.") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise UserError(f"{where} must be a mapping of sections, not {type(values).__name__}.")
    return {section: content for section, content in values.items() if content is not None}


@lru_cache(maxsize=16)  # a command reads the file of a run several times, 9 ms each
def _load(text: str) -> Any:
    loader = _Loader(text)
    try:
        return loader.get_single_data()
    except (ValueError, OverflowError) as error:  # the scanner: an escape that is no character, a version of any length
        raise yaml.YAMLError(f"an escape or a directive is invalid, {error}") from None
    finally:
        loader.dispose()


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with limits, in which every error has a position in the text."""

    # Python represents the bytes of a file name that is not UTF-8 by these surrogates; a setting may contain them.
    NON_PRINTABLE = re.compile(yaml.reader.Reader.NON_PRINTABLE.pattern.replace("\ud7ff", "\ud7ff\udc80-\udcff"))  # type: ignore[misc]

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._extents: dict[yaml.Node, tuple[int, int]] = {}  # values and levels below each complete node

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        is_alias = self.check_event(yaml.AliasEvent)
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        self._depth += 1
        if self._depth > DEEPEST:
            raise _error(f"lists and mappings are nested more than {DEEPEST} deep", mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        if node is None:
            return None
        if not is_alias:
            self._measure(node)
        elif node not in self._extents:
            raise _error("a value contains itself", mark)
        return node

    def _measure(self, node: yaml.Node) -> None:
        below = [self._extents[child] for child in _children(node)]
        values, levels = 1 + sum(v for v, _ in below), 1 + max((n for _, n in below), default=0)
        if values > MOST_VALUES:
            raise _error(f"aliases make more than {MOST_VALUES:,} values", node.start_mark)
        if levels > DEEPEST:
            raise _error(f"aliases nest lists and mappings more than {DEEPEST} deep", node.start_mark)
        self._extents[node] = values, levels

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            value = super().construct_object(node, deep)
        except _CONSTRUCTOR_ERRORS:
            kind = node.tag.rpartition(":")[2]
            raise _error(f"{str(node.value)[:40]!r} is not a valid {kind}", node.start_mark) from None
        if isinstance(value, int) and value.bit_length() > INTEGER_BITS:
            raise _error(f"a whole number has more than {INTEGER_BITS} bits", node.start_mark)
        return value


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [child for pair in node.value for child in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []


def _error(problem: str, mark: yaml.Mark) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(None, None, problem, mark)
