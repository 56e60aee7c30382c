"""The report: one self-contained HTML file about one model, its records and what was found."""

from trt_lab.views.report.collect import records_report, report_data
from trt_lab.views.report.data import Cause, Outcome, ReportData, Suspect, TensorPair, TensorRow
from trt_lab.views.report.render import write_report

__all__ = [
    "Cause",
    "Outcome",
    "ReportData",
    "Suspect",
    "TensorPair",
    "TensorRow",
    "records_report",
    "report_data",
    "write_report",
]
