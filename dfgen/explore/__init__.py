"""Looking at data: pictures of rows, and figures of a frame; matplotlib draws them."""

from dfgen.explore.report_file import report

__all__ = ["report"]
