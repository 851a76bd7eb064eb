"""Random chains of rings: each role takes a tile, adds to it and hands it on, in its own style."""

from __future__ import annotations

import itertools
import linecache
import random
from typing import Any

import tiledsl as td

ROWS, COLUMNS = 128, 32
MOST_WARPS = 32
_serial = itertools.count()


class Chain:
    """A kernel ``program(x, y, n)`` with ``y[k] = x[k] + added`` for each of n tiles.

    With a ``tap`` a second consumer of one ring writes ``y[n + k] = x[k] + tapped``.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.rings = self.rng.randint(1, 2)
        self.added = 0
        self.tapped: int | None = None
        self.warps = 0
        tap = self.rng.randrange(self.rings) if self.rng.random() < 0.5 else None
        self.left = 1 + self.rings + (tap is not None)  # roles to come
        lines = ["def program(x: td.Tensor, y: td.Tensor, n: td.int32):"]
        for number in range(self.rings):
            lines += self._ring(number)
        lines += self._source()
        for number in range(self.rings):
            if number == tap:
                self.tapped = self.added
                lines += self._role(f"tap{number}", number, None, 0)
            step = self.rng.randint(1, 9)
            self.added += step
            onto = number + 1 if number + 1 < self.rings else None
            lines += self._role(f"hop{number}", number, onto, step)
        self.text = "\n".join(lines)

    def _ring(self, number: int) -> list[str]:
        stages = self.rng.randint(1, 3)
        return [
            f"    r{number} = td.InputTilePipeline(td.TileArray(td.float32, ({ROWS}, {COLUMNS}),"
            f" stages={stages}), num_group_stages={stages})",
        ]

    def _source(self) -> list[str]:
        kind = self.rng.choice(["tma", "copy", "store", "mixed"])
        warps = {"tma": (1,), "copy": (1, 2, 4)}.get(kind, (4, 8))
        copies = {
            "tma": ["td.tma_load(x, (row, 0), s.tile(), s.barrier())"],
            "copy": ["td.async_copy(x, (row, 0), s.tile(), s.barrier())"],
            "store": [f"s.tile().store(td.load(x, (row, 0), ({ROWS}, {COLUMNS})))"],
        }
        if kind == "mixed":
            one, other = self.rng.sample(sorted(copies), 2)
            produce = [
                "if k % 2 == 0:",
                *(f"    {line}" for line in self._held("view_out", copies[one])),
                "else:",
                *(f"    {line}" for line in self._held("view_out", copies[other])),
            ]
            if "store" not in (one, other):
                warps = (1, 2, 4)
        else:
            produce = self._held("view_out", copies[kind])
        produce = [f"row = k * {ROWS}", *produce]
        return self._replicated("source", self.rng.choice(warps), 0, None, [], produce)

    def _role(self, name: str, ring: int, onto: int | None, step: int) -> list[str]:
        consume = self._held("view_in", [f"v = s.tile().load() + {float(step)}"])
        if onto is not None:
            produce = self._held("view_out", ["s.tile().store(v)"])
        else:
            row = f"(n + k) * {ROWS}" if name.startswith("tap") else f"k * {ROWS}"
            store = self.rng.choice(["td.store", "td.tma_store"])
            produce = [f"{store}(v, y, ({row}, 0))"]
        return self._replicated(name, self.rng.choice([4, 4, 8]), onto, ring, consume, produce)

    def _held(self, view: str, body: list[str]) -> list[str]:
        """``body`` with a stage ``s`` of a view, held in one of the ways that there are."""
        style = self.rng.choice(["with", "flat", "ready", "asks"])
        if style == "flat":
            return [f"s = {view}.acquire()", *body, "s.release()"]
        inside = [f"    {line}" for line in body]
        if style == "ready":
            ask = f"ready = {view}.try_acquire()"
            return [ask, f"with {view}.acquire_if_needed(ready) as s:", *inside]
        if style == "asks":
            spin = [f"while not {view}.try_acquire():", "    pass"]
            return [*spin, f"with {view}.acquire() as s:", *inside]
        return [f"with {view}.acquire() as s:", *inside]

    def _replicated(
        self, name: str, warps: int, onto: int | None, ring: int | None,
        consume: list[str], produce: list[str],
    ) -> list[str]:  # fmt: skip
        # Those to come must fit, too: each takes two warpgroups at most.
        self.left -= 1
        room = MOST_WARPS - self.warps - 8 * self.left
        replicas = self.rng.choice([r for r in (1, 2, 3) if r == 1 or r * warps <= room])
        self.warps += -(-replicas * warps // 4) * 4
        lines = [f"    with td.role({name!r}, warps={warps}, replicas={replicas}) as me:"]
        if ring is not None:
            lines.append(f"        view_in = r{ring}.consumer()")
        if onto is not None:
            lines.append(f"        view_out = r{onto}.producer()")
        lines.append("        for k in range(me.index, n, me.count):")
        for turn, part in (("take", consume), ("give", produce)):
            if part:
                lines.append(f"            with me.turn({turn!r}):")
                lines += [f"                {line}" for line in part]
        return lines

    def kernel(self) -> td.Kernel:
        file = f"<random rings {next(_serial)}>"
        linecache.cache[file] = (
            len(self.text), None, self.text.splitlines(keepends=True), file,
        )  # fmt: skip
        names: dict[str, Any] = {"td": td}
        exec(compile(self.text, file, "exec"), names)
        return td.kernel(grid=1)(names["program"])
