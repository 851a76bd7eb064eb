"""What the functions of the language do when plain Python calls them."""

from __future__ import annotations

from tiledsl.errors import TypeMismatch


def outside_kernel(name: str) -> TypeMismatch:
    """The error of a function or member that has a meaning only while a kernel is compiled."""
    return TypeMismatch(
        f"{name} is only meaningful inside of a @td.kernel, but plain Python called it",
        hint="call it in a function decorated with @td.kernel, or in a @td.function that such a"
        " kernel calls",
    )
