"""Random roles: refused exactly where some path misuses a stage.

Each condition is drawn by itself, so that every path through a program can be taken: what is
refused must then fail on one of many runs, and what is accepted on none.
"""

from __future__ import annotations

import linecache
import random
from dataclasses import dataclass, field
from typing import Any

import pytest

import tiledsl as td
from tests.errors.checks import BF, run_checks, traced
from tests.errors.stage_machine import Fault, StageMachine, TooLong
from tiledsl.codegen.ir.core import Op
from tiledsl.codegen.ir.kernel import Kernel, roles_of
from tiledsl.codegen.ir.ops import tile
from tiledsl.errors import StageError

RUNS = 400
HEAD = """\
def program(a: td.Tensor, x: td.Tensor):
    pipeline = td.InputTilePipeline(td.TileArray(a.dtype, (64, 64), stages=2), 2)
    with td.role("load", warps=1):
        producer = pipeline.producer()
        r0 = r1 = False
"""
TAIL = """\
    with td.role("take", warps=1):
        pipeline.consumer().acquire().release()
"""


@dataclass
class Program:
    """The lines of a role that acquires, fills and releases stages, mostly as it should."""

    rng: random.Random
    lines: list[str] = field(default_factory=list)
    count: int = 0

    def text(self) -> str:
        self.block("        ", 2, False, [])
        return HEAD + "\n".join(self.lines) + "\n" + TAIL

    def add(self, indent: str, line: str) -> None:
        self.lines.append(indent + line)

    def block(self, indent: str, depth: int, loop: bool, stages: list[str]) -> None:
        mine = list(stages)
        first = len(mine)
        for _ in range(self.rng.randint(1, 4)):
            self.statement(indent, depth, loop, mine)
        for stage in mine[first:]:
            if self.rng.random() < 0.9:
                self.add(indent, f"{stage}.release()")

    def statement(self, indent: str, depth: int, loop: bool, stages: list[str]) -> None:
        kinds = ["acquire", "acquire", "ask", "logic"]
        kinds += ["load", "load"] * bool(stages)
        if self.rng.random() < 0.15:
            kinds += ["release"] * bool(stages)
        if depth:
            kinds += ["if", "for", "while", "counted", "whole"]
        if loop:
            kinds.append("jump")
        getattr(self, self.rng.choice(kinds))(indent, depth, loop, stages)

    # ----------------------------------------------------------------- single statements

    def acquire(self, indent: str, depth: int, loop: bool, stages: list[str]) -> None:
        self.count += 1
        how = self.rng.choice(["acquire()", "acquire()", f"acquire_if_needed({self.flag()})"])
        self.add(indent, f"s{self.count} = producer.{how}")
        stages.append(f"s{self.count}")

    def load(self, indent: str, depth: int, loop: bool, stages: list[str]) -> None:
        stage = self.rng.choice(stages)
        self.add(indent, f"td.tma_load(a, (0, 0), {stage}.tile(), {stage}.barrier())")

    def release(self, indent: str, depth: int, loop: bool, stages: list[str]) -> None:
        self.add(indent, f"{self.rng.choice(stages)}.release()")

    def ask(self, indent: str, depth: int, loop: bool, stages: list[str]) -> None:
        self.add(indent, f"{self.flag()} = producer.try_acquire()")

    def logic(self, indent: str, depth: int, loop: bool, stages: list[str]) -> None:
        one, other = self.flag(), self.rng.choice([self.flag(), "x[0] > 0"])
        what = self.rng.choice([f"{one} and {other}", f"{other} or {one}", f"not {one}", "False"])
        self.add(indent, f"{self.flag()} = {what}")

    def jump(self, indent: str, depth: int, loop: bool, stages: list[str]) -> None:
        self.add(indent, "if x[0] > 0:")
        for stage in stages:
            if self.rng.random() < 0.3:
                self.add(indent, f"    {stage}.release()")
        self.add(indent, self.rng.choice(["    break", "    continue"]))

    def flag(self) -> str:
        return self.rng.choice(["r0", "r1"])

    # ------------------------------------------------------------------- with blocks of their own

    def if_(self, indent: str, depth: int, loop: bool, stages: list[str]) -> None:
        self.add(indent, "if x[0] > 0:")
        self.block(indent + "    ", depth - 1, loop, stages)
        if self.rng.random() < 0.6:
            self.add(indent, "else:")
            self.block(indent + "    ", depth - 1, loop, stages)

    def for_(self, indent: str, depth: int, loop: bool, stages: list[str]) -> None:
        self.add(indent, "for _ in range(x[0]):")
        self.block(indent + "    ", depth - 1, True, stages)

    def while_(self, indent: str, depth: int, loop: bool, stages: list[str]) -> None:
        self.add(indent, "while x[0] > 0:")
        self.block(indent + "    ", depth - 1, True, stages)

    def counted(self, indent: str, depth: int, loop: bool, stages: list[str]) -> None:
        """A loop whose counter is known, with loads that depend on it."""
        count = self.rng.randint(0, 3)
        self.add(indent, f"for i in range({count}):")
        self.add(indent, f"    if i {self.rng.choice(['==', '<', '>='])} {self.rng.randint(0, 2)}:")
        if stages:
            self.load(indent + "        ", depth, loop, stages)
        self.add(indent, "        r0 = r0 and x[0] > 0")

    def whole(self, indent: str, depth: int, loop: bool, stages: list[str]) -> None:
        """What may be skipped where an answer says so: a stage that is only used inside."""
        flag = self.flag()
        self.add(indent, f"if {self.rng.choice(['', 'not '])}{flag}:")
        mine: list[str] = []
        self.count += 1
        self.add(indent, f"    s{self.count} = producer.acquire_if_needed({flag})")
        mine.append(f"s{self.count}")
        self.load(indent + "    ", depth, loop, mine)
        self.add(indent, f"    {mine[0]}.release()")


for _name in ("if", "for", "while"):
    setattr(Program, _name, getattr(Program, f"{_name}_"))


def kernel_of(seed: int) -> tuple[td.Kernel, str]:
    text = Program(random.Random(seed)).text()
    file = f"<stages {seed}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space: dict[str, Any] = {"td": td}
    exec(compile(text, file, "exec"), space)
    return td.kernel(grid=1)(space["program"]), text


def find_fault(kernel: Kernel, expected: dict[Op, int]) -> Fault | None:
    """The first of many runs that misuses a stage."""
    ((_, body), _) = roles_of(kernel)
    for seed in range(RUNS):
        try:
            StageMachine(body, seed, expected).run()
        except Fault as fault:
            return fault
        except TooLong:
            pass
    return None


def check_program(seed: int) -> bool:
    """Whether the program is accepted; fails where that is not what its runs say."""
    kernel, text = kernel_of(seed)
    ir = traced(kernel, BF, td.spec((8,), td.int32))
    refused = None
    try:
        run_checks(ir)
    except StageError as error:
        refused = error
    if refused is not None:
        assert find_fault(ir, {}) is not None, f"refused without need:\n{text}\n{refused}"
        return False
    acquires = (op for op in ir.body.walk() if isinstance(op, tile.AcquireProducer))
    fault = find_fault(ir, {op: op.nbytes or 0 for op in acquires})
    assert fault is None, f"accepted, but {fault}:\n{text}"
    return True


@pytest.mark.parametrize("seed", range(60))
def test_random_role(seed: int) -> None:
    check_program(seed)


def test_both_outcomes_occur() -> None:
    """The programs are neither all right nor all wrong."""
    accepted = [check_program(seed) for seed in range(100, 140)]
    assert 5 < sum(accepted) < 35
