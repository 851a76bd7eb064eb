"""Random programs whose ``with`` blocks are left in every way: turns and stages end as in Python.

Each program runs as plain Python beside fakes that log, and its IR in the evaluator; the logs of
begins, ends, acquires and releases must be one, and so must the numbers.
"""

from __future__ import annotations

import itertools
import secrets
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import tiledsl as td
from tests.frontend.evaluate import Evaluator, spec_of
from tests.frontend.programs import OUTPUTS, VARIABLES, Generator, define
from tiledsl.codegen.ir.core import Op, Value
from tiledsl.codegen.ir.ops import sync, tile
from tiledsl.frontend.build import build_kernel

ARGUMENTS = [(0, 0), (3, -4), (7, 5)]
Log = list[tuple[str, Any]]


class Sections(Generator):
    """Programs in a role, with turns and stages."""

    def program(self) -> str:
        self.emit(0, "def kernel(out, a, b):")
        self.emit(1, "ring = td.ProducerConsumerPipeline(9)")
        self.emit(1, "with td.role('one', warps=1, replicas=2) as me:")
        for number, name in enumerate(VARIABLES):
            self.emit(2, f"{name} = {self.random.choice(['a', 'b', str(number), 'a + b'])}")
        self.emit(2, "xs = [a, b, 1]")
        self.emit(2, "flag = False")
        self.block(2, 4, "kernel")
        for number, name in enumerate((*VARIABLES, "xs[0]", "xs[1]", "xs[2]", "flag")):
            self.emit(2, f"out[{number}] += {name}")
        return "\n".join(self.lines) + "\n"

    def statement(self, depth: int, fuel: int, kind: str) -> None:
        if fuel and self.random.random() < 0.35:
            self.section(depth, fuel - 1, kind)
        else:
            super().statement(depth, fuel, kind)

    def section(self, depth: int, fuel: int, kind: str) -> None:
        turn = f"me.turn('turn{next(self.names)}')"
        view = self.random.choice(["ring.consume()", "ring.consumer().acquire()"])
        items = self.random.choice([turn, view, f"{turn}, {view}", f"{view}, {turn}"])
        self.emit(depth, f"with {items}:")
        self.body(depth + 1, fuel, kind)


def fakes(log: Log) -> Any:
    """What the programs need of ``td``, as plain Python."""
    stages = itertools.count()

    @contextmanager
    def turn(name: str) -> Iterator[None]:
        log.append(("begin", name))
        yield
        log.append(("end", name))

    @contextmanager
    def stage() -> Iterator[None]:
        number = next(stages)
        log.append(("acquire", number))
        yield
        log.append(("release", number))

    def ring(_: int) -> Any:
        view = types.SimpleNamespace(acquire=lambda: _Exits(stage()))
        return types.SimpleNamespace(consume=lambda: _Exits(stage()), consumer=lambda: view)

    @contextmanager
    def role(*_: Any, **__: Any) -> Iterator[Any]:
        yield types.SimpleNamespace(turn=lambda name: _Exits(turn(name)))

    return types.SimpleNamespace(ProducerConsumerPipeline=ring, role=role)


class _Exits:
    """A context that is entered in ``with`` only; generators end on jumps too."""

    def __init__(self, manager: Any) -> None:
        self._manager = manager

    def __enter__(self) -> Any:
        return self._manager.__enter__()

    def __exit__(self, *_: object) -> None:
        self._manager.__exit__(None, None, None)


class Logging(Evaluator):
    def __init__(self, values: dict[Value, Any], log: Log) -> None:
        super().__init__(values)
        self._log = log
        self._stages = itertools.count()

    def execute(self, op: Op) -> list[Any]:
        match op:
            case sync.TurnBegin(name=name):
                self._log.append(("begin", name))
                return []
            case sync.TurnEnd(name=name):
                self._log.append(("end", name))
                return []
            case tile.PipelineCreate():
                return ["ring"]
            case tile.AcquireConsumer():
                number = next(self._stages)
                self._log.append(("acquire", number))
                return [number]
            case tile.Release(stage=stage):
                self._log.append(("release", self.values[stage]))
                return []
        return super().execute(op)


def _evaluated(kernel: Callable[..., Any], out: Any, a: int, b: int) -> Log:
    given = {"out": out, "a": a, "b": b}
    built = build_kernel(kernel, {n: spec_of(x) for n, x in given.items()}, name="kernel")
    values = dict(
        zip((p.value for p in built.params), (out, np.int32(a), np.int32(b)), strict=True)
    )
    log: Log = []
    Logging(values, log).run(built.body)
    return log


@pytest.mark.parametrize("batch", range(8))
def test_random_sections(batch: int) -> None:
    sections = 0
    for _ in range(4):
        seed = secrets.randbelow(2**40)
        source = Sections(seed).program()
        traced = define(source, td=td)
        for a, b in ARGUMENTS:
            expected, got = np.zeros(OUTPUTS, np.int32), np.zeros(OUTPUTS, np.int32)
            log: Log = []
            define(source, td=fakes(log))(expected, a, b)
            try:
                assert _evaluated(traced, got, a, b) == log
                np.testing.assert_array_equal(got, expected)
            except Exception as error:
                raise AssertionError(f"seed {seed}, a={a}, b={b}: {error}\n{source}") from error
            sections += len(log)
    assert sections, "the programs have sections"
