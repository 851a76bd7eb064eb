"""Two names of one list or object: a change shows under both, as in Python, or is refused."""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tiledsl as td
from tests.frontend.evaluate import run
from tests.frontend.programs import define
from tests.language.traced import Refused, one_line, report
from tiledsl.errors import TypeMismatch

SLOTS = 8


@dataclass
class Box:
    items: list[Any]
    count: int


@dataclass
class Cell:
    x: int


@dataclass
class Holder:
    cell: Cell
    count: int


def list_in_an_object_that_a_loop_changes(out, a, b):
    box = Box([a, b], 0)
    items = box.items
    for i in range(3):
        if i == b:
            box.count += 1
        box.items[0] += box.count
        items[1] += 1
    items[0] += 100
    out[0], out[1], out[2] = box.items[0], box.items[1], box.count


def object_in_an_object(out, a, b):
    holder = Holder(Cell(a), 0)
    cell = holder.cell
    for k in range(4):
        for n in range(2):
            cell.x += n
            holder.count += k
            if holder.count > b:
                break
        holder.cell.x += 1
    cell.x += 7
    out[0], out[1] = holder.cell.x, holder.count


def list_in_a_list_that_a_branch_changes(out, a, b):
    inner = [a]
    outer = [inner, 3]
    if a > b:
        outer[1] = 4
    inner[0] += 9
    for i in range(3):
        inner[0] += i
        outer[1] += 1
    if b > 0:
        outer[0] = inner
    outer[0][0] += 2
    out[0], out[1], out[2] = outer[0][0], outer[1], inner[0]


def another_list_in_an_object(out, a, b):
    box = Box([a, b], 0)
    for i in range(4):
        if i != a:
            box.items = [box.items[1], box.items[0] + i]
        box.count += 1
    out[0], out[1], out[2] = box.items[0], box.items[1], box.count


def chosen_list_is_read(out, a, b):
    xs, ys = [a, 1], [b, 2]
    chosen = xs if a > b else ys
    out[0], out[1] = chosen


def chosen_list_without_another_name_is_changed(out, a, b):
    chosen = [a, 1]
    if a > b:
        chosen = [b, 2]
    chosen[0] += 1
    out[0], out[1] = chosen


def new_list_in_each_iteration(out, a, b):
    first = pair = [a, b]
    for i in range(3):
        pair = [pair[1], (pair[0] + i) % 50]
        pair[1] += 2
    pair[0] += 5
    out[0], out[1], out[2], out[3] = *pair, *first


def changed_and_exchanged(out, a, b):
    xs, ys = [a, 1], [b, 2]
    if a > 2:
        xs[0] = 27
        xs, ys = ys, xs
    else:
        ys[0] = 5
    out[0], out[1] = xs[0], ys[0]


def exchanged_and_changed(out, a, b):
    xs, ys = [a, 1], [b, 2]
    if b > 2:
        xs, ys = ys, xs
        xs[1] = 7
    elif b < -2:
        for i in range(3):
            xs[1] = 4 + i
        xs, ys = ys, xs
    out[0], out[1], out[2], out[3] = *xs, *ys


KERNELS: list[Callable[..., Any]] = [
    value
    for value in list(globals().values())
    if callable(value) and getattr(value, "__code__", None) is not None
    and value.__code__.co_varnames[:1] == ("out",)
]  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.__name__)
def test_as_in_python(kernel: Callable[..., Any]) -> None:
    rng = np.random.default_rng()
    for a, b in [(0, 0), (1, 2), (2, 1), (-1, 5), *rng.integers(-9, 9, (8, 2)).tolist()]:
        expected, got = np.zeros(SLOTS, np.int32), np.zeros(SLOTS, np.int32)
        kernel(expected, a, b)
        run(kernel, out=got, a=a, b=b)
        np.testing.assert_array_equal(got, expected, err_msg=f"{kernel.__name__}({a}, {b})")


# ----------------------------------------------------------------------------- refused

cases: list[Any] = []
refused = Refused(cases)
INT = td.int32


@td.function
def grow(items, n):
    if n > 0:
        items = [n]
    items[0] += 1
    return items[0]


@refused(n=INT)
def chosen_list_is_changed(n):
    """TypeMismatch: a run-time condition decides whether this is also 'xs', which would have to
    change with it
    at: chosen[0]
    hint: copy it first, such as list(x), or change it in each branch"""
    xs, ys = [n], [2]
    chosen = xs if n > 0 else ys
    chosen[0] = 9


@refused(n=INT)
def one_of_the_lists_is_changed(n):
    """TypeMismatch: a run-time condition decides whether this is also 'chosen', which would have
    to change with it
    at: xs[0]
    hint: copy it first, such as list(x), or change it in each branch"""
    xs = [n]
    chosen = xs if n > 0 else [2]
    xs[0] = 9


@refused(n=INT)
def both_names_are_chosen(n):
    """TypeMismatch: a run-time condition decides whether this is also 'q', which would have to
    change with it
    at: p.append(5)
    hint: copy it first, such as list(x), or change it in each branch"""
    if n > 0:
        p = q = [1]
    else:
        p = q = [2]
    p.append(5)
    x = len(q)


@refused(n=INT)
def list_of_the_caller_is_changed(n):
    """TypeMismatch: a run-time condition decides whether this is also 'mine', which would have to
    change with it
    at: items[0] += 1
    hint: copy it first, such as list(x), or change it in each branch"""
    mine = [4]
    x = grow(mine, n)


@refused(n=INT)
def chosen_object_is_changed(n):
    """TypeMismatch: a run-time condition decides whether this is also 'held', which would have to
    change with it
    at: cell.x
    hint: copy it first, such as list(x), or change it in each branch"""
    held = (Cell(n), 1)
    cell = held[0]
    if n > 0:
        cell = Cell(n + 1)
    cell.x = 5


@refused(n=INT)
def loop_changes_what_it_replaces(n):
    """TypeMismatch: a run-time condition decides whether this is also 'first', which would have
    to change with it
    at: items[0] += 1
    hint: copy it first, such as list(x), or change it in each branch"""
    first = items = [n]
    for i in range(3):
        items[0] += 1
        items = [items[0]]


@pytest.mark.parametrize(("function", "params"), cases)
def test_refused(function: Callable[..., Any], params: dict[str, Any]) -> None:
    assert report(function, params) == one_line(function.__doc__ or "")


# ------------------------------------------------------------------------------ random

LISTS = ("xs", "ys", "zs")


class Program:
    """Lists that change, change places, and are chosen, in branches and loops."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines = ["def kernel(out, a, b):", "    xs, ys, zs, i = [a, 1], [b, 2], [a, b], 0"]
        self.block(1, 3, in_loop=False)
        self.lines.append("    out[0], out[1], out[2], out[3], out[4], out[5] = *xs, *ys, *zs")

    def number(self) -> str:
        items = [f"{name}[{place}]" for name in LISTS for place in (0, 1)]
        return self.random.choice(["a", "b", "i", "1", "3", *items])

    def condition(self) -> str:
        return f"{self.number()} {self.random.choice(['>', '=='])} {self.number()}"

    def simple(self) -> str:
        one, two, three = (self.random.choice(LISTS) for _ in range(3))
        return self.random.choice([
            f"{one}[{self.random.randrange(2)}] = ({self.number()} + {self.number()}) % 29",
            f"{one} = {two}",
            f"{one} = [{self.number()}, {self.number()}]",
            f"{one} = {two} if {self.condition()} else {three}",
            f"{one}, {two} = {two}, {one}",
            f"{one} = list({two})",
        ])  # fmt: skip

    def block(self, depth: int, fuel: int, *, in_loop: bool) -> None:
        pad = "    " * depth
        for _ in range(self.random.randint(1, 3)):
            kind = self.random.random()
            if not fuel or kind < 0.6:
                self.lines.append(pad + self.simple())
            elif kind < 0.8:
                self.lines.append(f"{pad}if {self.condition()}:")
                self.block(depth + 1, fuel - 1, in_loop=in_loop)
                if in_loop and self.random.random() < 0.3:
                    self.lines.append(f"{pad}    {self.random.choice(['break', 'continue'])}")
            else:
                count = self.random.choice(["3", "abs(a) % 4", "b"])
                self.lines.append(f"{pad}for i in range({count}):")
                self.block(depth + 1, fuel - 1, in_loop=True)


@pytest.mark.parametrize("batch", range(4))
def test_random_lists(batch: int) -> None:
    accepted = 0
    for _ in range(25):
        seed = secrets.randbelow(2**40)
        source = "\n".join(Program(seed).lines) + "\n"
        kernel = define(source)
        for a, b in [(0, 0), (3, -2), (7, 4), (1, 1)]:
            expected, got = np.zeros(SLOTS, np.int32), np.zeros(SLOTS, np.int32)
            kernel(expected, a, b)
            try:
                run(kernel, out=got, a=a, b=b)
            except TypeMismatch as error:
                if "a run-time condition decides" in error.message:
                    break
                raise AssertionError(f"seed {seed}: {error}\n{source}") from error
            np.testing.assert_array_equal(got, expected, err_msg=f"seed {seed}\n{source}")
        else:
            accepted += 1
    assert accepted >= 10  # most programs change nothing that has two names
