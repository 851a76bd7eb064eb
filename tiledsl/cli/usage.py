"""What is wrong with a command line."""

from __future__ import annotations

__all__ = ["UsageError"]


class UsageError(Exception):
    """A command line that makes no sense; the message says which part, and what was expected."""
