"""Random expressions of register tiles, as text that a kernel and NumPy both understand."""

from __future__ import annotations

import random
from typing import Any

import numpy as np


class NumPy:
    """What the names of ``td`` mean for arrays."""

    float32 = np.float32
    maximum, minimum, where, abs = np.maximum, np.minimum, np.where, np.abs
    exp, exp2, sqrt, tanh = np.exp, np.exp2, np.sqrt, np.tanh

    @staticmethod
    def sigmoid(x: Any) -> Any:
        return np.float32(1) / (np.float32(1) + np.exp(-x))

    @staticmethod
    def rsqrt(x: Any) -> Any:
        return 1 / np.sqrt(x)

    @staticmethod
    def iota(shape: tuple[int, ...], axis: int, dtype: Any) -> Any:
        return np.indices(shape)[axis].astype(dtype)


class Generator:
    """Expressions of rank 2 (``a``, ``b``), per row (``u``), per column (``v``) and numbers.

    Without ``functions`` every operation is exact or rounded once, the same everywhere.
    """

    def __init__(self, seed: int, rows: int, columns: int, functions: bool = True) -> None:
        self.random = random.Random(seed)
        self.shape = (rows, columns)
        self.names = ["abs", "-", "sqrt"]
        if functions:
            self.names += ["exp", "exp2", "tanh", "sigmoid", "rsqrt"]

    def whole(self, depth: int) -> str:
        """An expression of rank 2."""
        choice = self.random.randint(0, 7) if depth else self.random.randint(0, 2)
        match choice:
            case 0:
                return self.random.choice(["a", "b"])
            case 1:
                axis = self.random.randint(0, 1)
                return f"td.iota({self.shape}, {axis}, td.float32)"
            case 2:
                return f"({self.rows(depth)}[:, None] + {self.columns(depth)}[None, :])"
            case 3:
                mask = f"{self.operand(depth - 1)} {self.compare()} {self.whole(depth - 1)}"
                return f"td.where({mask}, {self.whole(depth - 1)}, {self.operand(depth - 1)})"
            case 4:
                return self.function(self.whole(depth - 1))
            case 5:
                name = self.random.choice(["maximum", "minimum"])
                return f"td.{name}({self.operand(depth - 1)}, {self.whole(depth - 1)})"
        left, right = self.whole(depth - 1), self.operand(depth - 1)
        if self.random.random() < 0.5:
            left, right = right, left
        return f"({left} {self.operator()} {right})"

    def operand(self, depth: int) -> str:
        """Anything that may stand beside an expression of rank 2."""
        match self.random.randint(0, 4):
            case 0:
                return f"{self.rows(depth)}[:, None]"
            case 1:
                return f"{self.columns(depth)}[None, :]"
            case 2:
                return self.number()
            case 3 if depth > 0:
                new = self.random.choice(
                    [f"{self.rows(0)}[:, None]", f"{self.columns(0)}[None, :]"]
                )
                return self.function(f"({new} {self.operator()} {self.number()})")
        return self.whole(max(0, depth - 1))

    def line(self, depth: int, name: str, length: int) -> str:
        """An expression of rank 1."""
        match self.random.randint(0, 4) if depth > 0 else 0:
            case 1:
                return f"td.iota(({length},), 0, td.float32)"
            case 2:
                return f"({self.line(depth - 1, name, length)} {self.operator()} {self.number()})"
            case 3:
                return self.function(self.line(depth - 1, name, length))
            case 4:
                mask = f"{name} {self.compare()} {self.number()}"
                return f"td.where({mask}, {self.line(depth - 1, name, length)}, {self.number()})"
        return name

    def rows(self, depth: int) -> str:
        return self.line(min(depth, 2), "u", self.shape[0])

    def columns(self, depth: int) -> str:
        return self.line(min(depth, 2), "v", self.shape[1])

    def number(self) -> str:
        return self.random.choice(["s", "2", "0.5", "-1.25", "t"])

    def function(self, x: str) -> str:
        name = self.random.choice(self.names)
        return f"(-{x})" if name == "-" else f"td.{name}({x})"

    def operator(self) -> str:
        return self.random.choice(["+", "-", "*", "/"])

    def compare(self) -> str:
        return self.random.choice(["<", "<=", ">", ">=", "==", "!="])


def kernel_source(text: str, rows: int, columns: int) -> str:
    """A function that stores the value of an expression of these extents to ``out``."""
    return (
        "def kernel(x, y, rows, columns, out, s, t):\n"
        f"    a, b = td.load(x, (0, 0), {(rows, columns)}), td.load(y, (0, 0), {(rows, columns)})\n"
        f"    u, v = td.load(rows, (0,), ({rows},)), td.load(columns, (0,), ({columns},))\n"
        f"    td.store({text}, out, (0, 0))\n"
    )


def plain_source(text: str) -> str:
    """The same for NumPy; it returns the value, which may have extents of 1."""
    return f"def kernel(a, b, u, v, s, t):\n    return {text}\n"
