"""Looking into a running kernel."""

from __future__ import annotations

from tiledsl.language.outside import outside_kernel


def print(*values: object, sep: str = " ", end: str = "\n") -> None:
    """Print text and numbers from the kernel, by one thread of each role that gets there.

    The text is formatted on the GPU. f-strings may contain run-time numbers, with the format
    specifications ``d``, ``x``, ``X``, ``o`` (integers) and ``e``, ``f``, ``g`` (floats), a width,
    a precision (floats), and the flags ``0``, ``<``, ``>`` and ``+``. A run-time bool prints as 0
    or 1, as the GPU cannot choose between texts. Without a specification floats print with ``%g``
    (six digits).

    Args:
        values: compile-time Python values, run-time scalars, f-strings.
        sep: between values, known at compile time.
        end: behind the last, known at compile time.

    Raises:
        TypeMismatch: a tile, a tensor or another object that has no text.
        InvalidValue: a format specification that the GPU does not have.

    Example::

        td.print("block", td.block_id(0), f"takes tile {m:4d} of {tiles.num_tiles}")
    """
    raise outside_kernel("td.print")
