"""Reports of experiments: one HTML page, and its figures as files."""

from lacuna.reports.page import Report, write_report

__all__ = ["Report", "write_report"]
