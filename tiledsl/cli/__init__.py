"""The command line: ``python -m tiledsl COMMAND``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tiledsl import ptx
from tiledsl.cli import run_ptx
from tiledsl.cli.usage import UsageError
from tiledsl.errors import TileError

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Returns:
        The exit status: 0, or 1 for a program that went wrong or gave other results than expected,
        or 2 for a command line that makes no sense.
    """
    parser = argparse.ArgumentParser(prog="python -m tiledsl", allow_abbrev=False)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run_ptx.add_parser(commands)
    given = parser.parse_args(arguments)
    try:
        status: int = given.run(given)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except TileError as error:
        print(f"error: {type(error).__name__}: {error}", file=sys.stderr)
        return 1 if isinstance(error, ptx.MachineFault | ptx.DecodeError) else 2
    return status
