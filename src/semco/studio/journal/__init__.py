"""What a project keeps: every label and every change of the classes, and the table of classes itself."""

from semco.studio.journal.class_table import ClassTable, NamedClass
from semco.studio.journal.entry import Entry
from semco.studio.journal.journal import SNAPSHOT_EVERY, Conflict, Journal

__all__ = ["SNAPSHOT_EVERY", "ClassTable", "Conflict", "Entry", "Journal", "NamedClass"]
