"""Run folders as tables, figures and one HTML page."""

from semco.report.page import write_report
from semco.report.tables import summary_table

__all__ = ["summary_table", "write_report"]
