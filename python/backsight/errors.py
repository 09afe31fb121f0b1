"""What can go wrong, as exceptions with the words of the program."""

__all__ = ["BacksightError", "CaptureError", "ImageError", "RecordError", "UsageError"]


class BacksightError(Exception):
    """Something could not be done. Damage in the trace is never a reason: it is data, and counted."""


class UsageError(BacksightError, ValueError):
    """What was asked for does not fit the capture, or makes no sense: a column, a filter, a trace ID, an option."""


class CaptureError(BacksightError, OSError):
    """A capture or another file that cannot be read or written."""


class ImageError(BacksightError, OSError):
    """Code that cannot be read."""


class RecordError(BacksightError):
    """A program that cannot be recorded."""
