"""Which values of a constant are the same to the compiler: finer than Python's ``==``."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable


def exact(value: object) -> Hashable:
    """A key that tells apart what is equal in Python and compiles to something else.

    ``1 == 1.0 == True`` and ``0.0 == -0.0``, alone and inside of tuples, frozensets and frozen
    dataclasses; each of them makes another kernel.

    Raises:
        TypeError: the value, or something inside of it, cannot be hashed.
    """
    kind = type(value)
    if kind is int or kind is bool or kind is str:
        return kind, value  # at once: this is done for each launch
    if isinstance(value, float):
        return kind, value.hex()
    if isinstance(value, complex):
        return kind, value.real.hex(), value.imag.hex()
    if isinstance(value, tuple):
        return kind, *map(exact, value)
    if isinstance(value, frozenset):
        return kind, frozenset(map(exact, value))
    hash(value)
    if dataclasses.is_dataclass(value) and kind.__eq__ is not object.__eq__:
        fields = dataclasses.fields(value)
        # The value too: it may compare by more than its fields.
        return kind, value, *(exact(getattr(value, f.name)) for f in fields if f.compare)
    return kind, value
