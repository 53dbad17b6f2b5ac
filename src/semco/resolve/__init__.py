"""Resolve a request to a configuration; only this package knows "auto"."""

from semco.resolve.facts import DataFacts, Machine
from semco.resolve.rules import Resolution, method_of, resolve

__all__ = ["DataFacts", "Machine", "Resolution", "method_of", "resolve"]
