"""From what was asked to what is done: the only room that knows "auto"."""

from semco.resolve.facts import DataFacts, Machine
from semco.resolve.rules import Resolution, choose_method, resolve

__all__ = ["DataFacts", "Machine", "Resolution", "choose_method", "resolve"]
