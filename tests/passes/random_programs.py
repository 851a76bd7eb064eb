"""Random consumers: mma in loops and branches, with a NumPy twin that does the same in order."""

from __future__ import annotations

import itertools
import linecache
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tiledsl as td

ROWS, COLUMNS, DEPTH = 64, 8, 16
ACCUMULATORS = ("x", "y")
_serial = itertools.count()


@dataclass
class Program:
    """A skeleton as lines of Python; ``{step ...}`` marks what differs between the roles."""

    rng: random.Random
    lines: list[str] = field(default_factory=list)
    loops: int = 0

    def block(self, depth: int, indent: str, counter: str | None) -> None:
        for _ in range(self.rng.randint(1, 3)):
            self.statement(depth, indent, counter)

    def statement(self, depth: int, indent: str, counter: str | None) -> None:
        choices = ["step", "step", "both", "scale", "sum"]
        if depth:
            choices += ["for", "for", "while"]
        if depth and counter:
            choices += ["if", "if", "leave"]
        kind = self.rng.choice(choices)
        one, other = self.rng.sample(ACCUMULATORS, 2)
        if kind == "step":
            self.lines.append(f"{indent}STEP {one}")
        elif kind == "both":
            self.lines.append(f"{indent}STEP {one} {other}")
        elif kind == "scale":
            self.lines.append(f"{indent}{one} = {one} * 0.5")
        elif kind == "sum":
            self.lines.append(f"{indent}{one} = {one} + {other}")
        elif kind == "for":
            name = self._name()
            stop = self.rng.choice(["0", "1", "2", "3", "n", "n + 2"])
            self.lines.append(f"{indent}for {name} in range({stop}):")
            self.block(depth - 1, indent + "    ", name)
        elif kind == "while":
            name = self._name()
            self.lines.append(f"{indent}{name} = 0")
            self.lines.append(f"{indent}while {name} < n:")
            self.lines.append(f"{indent}    {name} += 1")
            self.block(depth - 1, indent + "    ", name)
        elif kind == "if":
            self.lines.append(f"{indent}if {counter} % 2 == {self.rng.randint(0, 1)}:")
            self.block(depth - 1, indent + "    ", counter)
            if self.rng.random() < 0.6:
                self.lines.append(f"{indent}else:")
                self.block(depth - 1, indent + "    ", counter)
        else:
            self.lines.append(f"{indent}if {counter} == {self.rng.randint(0, 2)}:")
            if self.rng.random() < 0.5:
                self.lines.append(f"{indent}    STEP {one}")
            self.lines.append(f"{indent}    {self.rng.choice(['break', 'continue'])}")

    def _name(self) -> str:
        self.loops += 1
        return f"i{self.loops}"


def skeleton(seed: int) -> list[str]:
    program = Program(random.Random(seed))
    program.block(3, "", None)
    return program.lines


def _expand(lines: list[str], indent: str, step: Any, keep_tiles: bool) -> Iterator[str]:
    for line in lines:
        body = line.lstrip()
        at = indent + line[: len(line) - len(body)]
        if body.startswith("STEP"):
            yield from (at + text for text in step(body.split()[1:]))
        elif body.startswith(tuple(f"{a} =" for a in ACCUMULATORS)) and not keep_tiles:
            yield at + "pass"
        else:
            yield at + body


def _load(_: list[str]) -> list[str]:
    return [
        "with producer.acquire() as stage:",
        "    a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)",
        f"    td.tma_load(a, (0, q * {DEPTH}), a_tile, stage.barrier())",
        f"    td.tma_load(b, (0, q * {DEPTH}), b_tile, stage.barrier())",
        "q += 1",
    ]


def _mma(accs: list[str]) -> list[str]:
    return [
        "with consumer.acquire() as stage:",
        "    a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)",
        *(f"    {acc} = td.mma(a_tile, b_tile.T, {acc})" for acc in accs),
    ]


def kernel_of(lines: list[str]) -> td.Kernel:
    """The program as a kernel: ``program(a, b, c, n, stages=...)``."""
    text = "\n".join([
        "def program(a: td.Tensor, b: td.Tensor, c: td.Tensor, n: td.int32, *,"
        " stages: td.Constant[int]):",
        "    payload = td.StandardTilePayload(a.dtype, b.dtype,"
        f" ({ROWS}, {DEPTH}), ({COLUMNS}, {DEPTH}), num_pipeline_stages=stages)",
        "    ring = td.InputTilePipeline(payload, num_group_stages=stages)",
        "    with td.role('load', warps=1):",
        "        producer = ring.producer()",
        "        q = 0",
        *_expand(lines, "        ", _load, False),
        "    with td.role('mma', warps=4):",
        "        consumer = ring.consumer()",
        *(f"        {acc} = td.zeros(({ROWS}, {COLUMNS}), td.float32)" for acc in ACCUMULATORS),
        *_expand(lines, "        ", _mma, True),
        "        td.tma_store(x, c, (0, 0))",
        f"        td.tma_store(y, c, ({ROWS}, 0))",
    ])  # fmt: skip
    file = f"<random program {next(_serial)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"td": td}
    exec(compile(text, file, "exec"), names)
    return td.kernel(grid=1)(names["program"])


def reference_of(lines: list[str], a: Any, b: Any, n: int) -> tuple[Any, int]:
    """The result in float32, and how many stages were consumed."""

    def multiply(accs: list[str]) -> list[str]:
        part = f"[:, q * {DEPTH} : (q + 1) * {DEPTH}]"
        return [*(f"{acc} = {acc} + a{part} @ b{part}.T" for acc in accs), "q += 1"]

    names: dict[str, Any] = {"a": a.astype(np.float32), "b": b.astype(np.float32), "n": n, "q": 0}
    for acc in ACCUMULATORS:
        names[acc] = np.zeros((ROWS, COLUMNS), np.float32)
    exec("\n".join(_expand(lines, "", multiply, True)), names)
    return np.concatenate([names[acc] for acc in ACCUMULATORS]), names["q"]
