"""Random kernels: programs of integers, branches, loops, jumps, helpers and lists.

Each is valid Python that ends soon and stays within int32, so that running it as plain Python
says what its IR must do.
"""

from __future__ import annotations

import itertools
import linecache
import random
from collections.abc import Callable
from typing import Any

VARIABLES = ("p", "q", "r", "s")
OUTPUTS = 16
_NUMBER = itertools.count()


class Generator:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.loops = 0  # loops around the present statement, and how many of them are unrolled
        self.unrolled = 0
        self.names = itertools.count()
        self.helpers: list[tuple[str, int]] = []

    def program(self) -> str:
        for _ in range(self.random.randint(0, 2)):
            self.helper()
        self.emit(0, "def kernel(out, a, b):")
        for number, name in enumerate(VARIABLES):
            self.emit(1, f"{name} = {self.random.choice(['a', 'b', str(number), 'a + b'])}")
        self.emit(1, "xs = [a, b, 1]")
        self.emit(1, "flag = False")
        self.block(1, 3, "kernel")
        for number, name in enumerate((*VARIABLES, "xs[0]", "xs[1]", "xs[2]", "flag")):
            self.emit(1, f"out[{number}] += {name}")
        return "\n".join(self.lines) + "\n"

    def helper(self) -> None:
        name = f"helper{len(self.helpers)}"
        self.emit(0, f"def {name}(p, q):")
        self.emit(1, "r, s = q, 1")
        self.emit(1, "xs = [p, 0, q]")
        self.emit(1, "flag = p > q")
        saved, self.helpers = self.helpers, []
        self.block(1, 2, "helper")
        self.emit(1, f"return {self.expression(1)}")
        self.helpers = [*saved, (name, 2)]

    def emit(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    # ------------------------------------------------------------------------- statements

    def block(self, depth: int, fuel: int, kind: str) -> None:
        for _ in range(self.random.randint(1, 4)):
            self.statement(depth, fuel, kind)

    def statement(self, depth: int, fuel: int, kind: str) -> None:
        simple = [self.assignment, self.swap, self.item, self.raise_flag]
        if kind == "kernel":
            simple.append(self.store)
        compound = [self.branch, self.branch, self.for_loop, self.while_loop, self.unrolled_loop]
        if fuel and self.random.random() < 0.5:
            self.random.choice(compound)(depth, fuel - 1, kind)
        else:
            self.random.choice(simple)(depth)

    def assignment(self, depth: int) -> None:
        name = self.random.choice(VARIABLES)
        operator = self.random.choice(["=", "=", "+=", "-="])
        if operator == "=":
            self.emit(depth, f"{name} = ({self.expression(2)}) % 101")
        else:
            self.emit(depth, f"{name} {operator} ({self.expression(1)}) % 13")

    def swap(self, depth: int) -> None:
        first, second = self.random.sample(VARIABLES, 2)
        self.emit(depth, f"{first}, {second} = {second}, {first}")

    def item(self, depth: int) -> None:
        self.emit(depth, f"xs[{self.random.randrange(3)}] = ({self.expression(1)}) % 53")

    def raise_flag(self, depth: int) -> None:
        self.emit(depth, f"flag = {self.condition(1)}")

    def store(self, depth: int) -> None:
        place = self.random.randrange(8, OUTPUTS)
        self.emit(depth, f"out[{place}] += ({self.expression(1)}) % 17")

    def branch(self, depth: int, fuel: int, kind: str) -> None:
        self.emit(depth, f"if {self.condition(2)}:")
        self.body(depth + 1, fuel, kind)
        if self.random.random() < 0.3:
            self.emit(depth, f"elif {self.condition(1)}:")
            self.body(depth + 1, fuel, kind)
        if self.random.random() < 0.5:
            self.emit(depth, "else:")
            self.body(depth + 1, fuel, kind)

    def body(self, depth: int, fuel: int, kind: str) -> None:
        self.block(depth, fuel, kind)
        if self.random.random() < 0.25:
            self.jump(depth, kind)

    def jump(self, depth: int, kind: str) -> None:
        jumps = ["return" if kind == "kernel" else f"return {self.expression(1)}"]
        if self.unrolled and kind != "kernel":
            jumps = []  # refused beside break and continue
        if self.loops:
            jumps += ["break", "continue"] * 2
        if jumps:
            self.emit(depth, self.random.choice(jumps))

    def for_loop(self, depth: int, fuel: int, kind: str) -> None:
        bound = self.random.choice(["4", "abs(p) % 5", "abs(q) % 4 + 1", "2, 6", "7, 0, -2"])
        name = f"i{next(self.names)}"
        self.emit(depth, f"for {name} in range({bound}):")
        self.loops += 1
        self.emit(depth + 1, f"{self.random.choice(VARIABLES)} += {name}")
        self.body(depth + 1, fuel, kind)
        self.loops -= 1

    def while_loop(self, depth: int, fuel: int, kind: str) -> None:
        name = f"n{next(self.names)}"
        self.emit(depth, f"{name} = {self.random.randint(0, 5)}")
        if self.random.random() < 0.3:
            self.emit(depth, "while True:")
            self.emit(depth + 1, f"if {name} <= 0:")
            self.emit(depth + 2, "break")
        else:
            self.emit(depth, f"while {name} > 0 and {self.condition(1)}:")
        self.emit(depth + 1, f"{name} -= 1")
        self.loops += 1
        self.body(depth + 1, fuel, kind)
        self.loops -= 1

    def unrolled_loop(self, depth: int, fuel: int, kind: str) -> None:
        name = f"u{next(self.names)}"
        self.emit(depth, f"for {name} in (1, {self.atom()}, {self.atom()}):")
        self.emit(depth + 1, f"{self.random.choice(VARIABLES)} -= {name} % 7")
        self.loops += 1
        self.unrolled += 1
        self.body(depth + 1, fuel, kind)
        self.unrolled -= 1
        self.loops -= 1

    # ------------------------------------------------------------------------ expressions

    def atom(self) -> str:
        choices = [*VARIABLES, *VARIABLES, "xs[0]", "xs[1]", "xs[2]", "flag"]
        return self.random.choice([*choices, str(self.random.randint(-9, 9))])

    def expression(self, fuel: int) -> str:
        if fuel == 0:
            return self.atom()
        left, right = self.expression(fuel - 1), self.expression(fuel - 1)
        forms = [
            f"({left} + {right})",
            f"({left} - {right})",
            f"({left} % 11 * {self.random.randint(-3, 3)})",
            f"({left} // {self.random.choice([2, 3, 7, -4])})",
            f"({left} if {self.condition(fuel - 1)} else {right})",
            f"min({left}, {right})",
            f"abs({left})",
            f"(({left}) & 15 | ({right}) & 3)",
            f"({left} and {right})",
            f"({left} or {right})",
        ]
        if self.helpers:
            name, _ = self.random.choice(self.helpers)
            forms += [f"{name}({left} % 19, {right} % 23)"] * 3
        return self.random.choice(forms)

    def condition(self, fuel: int) -> str:
        if fuel == 0:
            return f"{self.atom()} {self.random.choice(['<', '<=', '==', '!=', '>'])} {self.atom()}"
        first, second = self.condition(fuel - 1), self.condition(fuel - 1)
        return self.random.choice(
            [
                first,
                f"({first} and {second})",
                f"({first} or {second})",
                f"not ({first})",
                f"{self.atom()} < {self.atom()} <= {self.expression(1)}",
                "flag",
                f"({first}) == ({second})",
            ]
        )


def define(source: str, **names: Any) -> Callable[..., Any]:
    """The function ``kernel`` of a source text, which ``inspect`` can find; it sees ``names``."""
    file = f"<program {next(_NUMBER)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"__name__": "program", **names}
    exec(compile(source, file, "exec", dont_inherit=True), namespace)
    kernel: Callable[..., Any] = namespace["kernel"]
    return kernel
