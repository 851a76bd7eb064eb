"""The figures. Each takes what the page has defined, runs one of its kernels and draws that."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

import tiledsl as td
from docs.figures.draw import GAP, MARGIN, NORMAL, SMALL, WIDTH, Bar, Figure, hue_of
from docs.figures.record import Record, Span, record
from tiledsl.runtime.emulator.barriers import Mbarrier

FILLING, READ, FULL = "4c8fd6", "5aa469", "d98a3d"
NEUTRAL, WRONG = "8b949e", "c9605f"


def _zeros(*shape: int) -> Any:
    import ml_dtypes

    return np.zeros(shape, ml_dtypes.bfloat16)


def _product(page: dict[str, Any], stages: int, steps: int) -> Record:
    """``product`` of the page: two loads and one product in each of ``steps`` stages."""
    a, b = _zeros(64, steps * 64), _zeros(64, steps * 64)
    c = np.zeros((64, 64), np.float32)
    (found,) = record(page["product"].compile(a, b, c, group=1, S=stages), (a, b, c))
    return found


def _fillings(found: Record, per_stage: int = 2) -> list[Span]:
    """The loads of each stage as one span, in order."""
    copies = found.of("copy")
    groups = [copies[i : i + per_stage] for i in range(0, len(copies), per_stage)]
    return [Span("copy", g[0].role, g[0].start, g[-1].end, g[0].stage) for g in groups]


# ------------------------------------------------------------------------------- overlap


def overlap(page: dict[str, Any]) -> str:
    """The same loop with one, two and three stages."""
    steps, left = 6, 130.0
    runs = {stages: _product(page, stages, steps) for stages in (1, 2, 3)}
    ends = {stages: found.of("product")[-1].end for stages, found in runs.items()}
    scale = (WIDTH - MARGIN - left) / max(ends.values())
    figure = Figure("One loop, rings of one, two and three stages")
    figure.note(f"{steps} steps; the number in a bar is the step. Time runs from left to right.")
    for stages, found in runs.items():
        plural = "" if stages == 1 else "s"
        busy = sum(span.end - span.start for span in found.of("product"))
        figure.heading(
            f"{stages} stage{plural}: {ends[stages]} ticks, tensor cores busy"
            f" {100 * busy / ends[stages]:.0f} %"
        )
        fillings = _fillings(found)
        for slot in range(stages):
            bars = [
                Bar(one.start, one.end, str(step), FILLING)
                for step, one in enumerate(fillings)
                if one.stage == slot
            ]
            figure.lane(f"copy to slot {slot}", bars, scale, left, 20)
        bars = [
            Bar(one.start, one.end, str(step), READ) for step, one in enumerate(found.of("product"))
        ]
        figure.lane("tensor cores", bars, scale, left, 20)
    figure.legend([(FILLING, "a copy is on its way"), (READ, "a product is computed")])
    return figure.svg()


# -------------------------------------------------------------------------------- parity


def parity(page: dict[str, Any]) -> str:
    """Which waits go on, as the emulator's mbarrier says."""
    waits, phases, left, width = range(4), range(5), 190.0, 108.0
    figure = Figure("What a wait sees: only the parity")
    figure.note("wait(p) is meant to go on when phase p is complete.")
    figure.y += GAP
    barrier = Mbarrier("ring", "full", 0, 1)
    figure.lane(
        "the barrier is in", [Bar(p, p + 1, f"phase {p}", "", True) for p in phases], width, left
    )
    figure.lane("its parity", [Bar(p, p + 1, str(p % 2), "", True) for p in phases], width, left)
    figure.y += GAP
    for wanted in waits:
        bars = []
        for phase in phases:
            barrier.phase = phase
            passes, complete = barrier.passed(wanted & 1), phase > wanted
            if passes == complete:
                text, hue = ("goes on", READ) if passes else ("waits", NEUTRAL)
            else:
                text, hue = ("too early!", WRONG) if passes else ("too long!", WRONG)
            bars.append(Bar(phase, phase + 1, text, hue))
        figure.lane(f"wait({wanted}), parity {wanted & 1}", bars, width, left)
    figure.legend(
        [(WRONG, "wrong: the barrier is neither in the phase waited for nor in the next")]
    )
    return figure.svg()


# -------------------------------------------------------------------------------- phases


def phases(page: dict[str, Any]) -> str:
    """What happens to one full barrier."""
    found = _product(page, 2, 4)
    states = found.changes("pipeline.full[0]")[:7]
    figure = Figure("The full barrier of slot 0, step by step")
    figure.note("Two loads of 8192 bytes fill a stage; one thread announces them with one arrival.")
    left = 150.0
    width = (WIDTH - MARGIN - left) / len(states)
    what = ["made"]
    for before, after in pairwise(states):
        if after.arrivals < before.arrivals:
            what.append("arrive")
        else:
            what.append("bytes")
    figure.y += GAP
    rows = [
        ("what happened", what, ""),
        ("at tick", [str(state.time) for state in states], ""),
        ("arrivals missing", [str(state.arrivals) for state in states], FILLING),
        ("bytes missing", [str(state.nbytes) for state in states], FILLING),
        ("phase", [str(state.phase) for state in states], READ),
        ("parity", [str(state.phase % 2) for state in states], READ),
    ]
    for name, texts, hue in rows:
        bars = [Bar(n, n + 1, text, hue, not hue) for n, text in enumerate(texts)]
        figure.lane(name, bars, width, left)
    figure.note(
        "When no arrival and no byte is missing the phase is complete, and the next begins."
    )
    return figure.svg()


# ---------------------------------------------------------------------------------- ring


def ring(page: dict[str, Any]) -> str:
    """The slots of a ring and the phases of their barriers."""
    stages, steps, left = 3, 8, 130.0
    found = _product(page, stages, steps)
    end = found.of("product")[-1].end + 1
    scale = (WIDTH - MARGIN - left) / end
    figure = Figure("A ring of three stages, and the phases of its barriers")
    figure.note("In each slot: being filled, full, being read; the number is the step.")
    fillings, products = _fillings(found), found.of("product")
    for slot in range(stages):
        figure.heading(f"slot {slot}")
        bars = []
        for step in range(slot, steps, stages):
            fill, read = fillings[step], products[step]
            assert fill.stage == slot
            bars.append(Bar(fill.start, fill.end, str(step), FILLING))
            if fill.end < read.start:
                bars.append(Bar(fill.end, read.start, "", FULL))
            bars.append(Bar(read.start, read.end, str(step), READ))
        figure.lane("tiles", bars, scale, left, 22)
        for which in ("full", "empty"):
            figure.lane(f"{which}, phase", _phases(found, which, slot, end), scale, left, 20)
    figure.legend(
        [(FILLING, "being filled"), (FULL, "full"), (READ, "being read"), (NEUTRAL, "parity 1")]
    )
    figure.note("Full: phase n ends when the copy of lap n has landed; the reader waits for that.")
    figure.note("Empty: phase n ends when the reader has released lap n; only then the loader may")
    figure.note("fill lap n + 1. For lap 0 it waits for nothing: no phase comes before phase 0.")
    return figure.svg()


def _phases(found: Record, which: str, slot: int, end: int) -> list[Bar]:
    starts: dict[int, int] = {}
    for state in found.changes(f"pipeline.{which}[{slot}]"):
        starts.setdefault(state.phase, state.time)
    times = [*starts.values(), end]
    return [
        Bar(times[n], times[n + 1], str(phase), NEUTRAL if phase % 2 else "", phase % 2 == 0)
        for n, phase in enumerate(starts)
        if times[n] < min(times[n + 1], end)
    ]


# ----------------------------------------------------------------------------- ping-pong


def ping_pong(page: dict[str, Any]) -> str:
    """Two replicas that take turns, and one role that does everything."""
    left, tiles, steps = 130.0, 6, 3
    a, b = _zeros(64 * tiles, 64 * steps), _zeros(64, 64 * steps)
    c = np.zeros((64 * tiles, 64), np.float32)
    runs = {}
    for replicas in (2, 1):
        compiled = page["ping_pong"].compile(a, b, c, replicas=replicas)
        (runs[replicas],) = record(compiled, (a, b, c))
    end = max(found.end for found in runs.values())
    scale = (WIDTH - MARGIN - left) / end
    figure = Figure("Replicas that take turns, and one role alone")
    figure.note(f"{tiles} output tiles of {steps} steps each; the number is the tile.")
    for replicas, found in runs.items():
        names = [f"mma.{i}" for i in range(replicas)] if replicas > 1 else ["mma"]
        title = "one role" if replicas == 1 else f"{replicas} replicas"
        figure.heading(f"{title}: {found.end} ticks")
        bars: list[Bar] = []
        stores: dict[str, list[Bar]] = {}
        for number, name in enumerate(names):
            products = [span for span in found.of("product") if span.role == name]
            for turn in range(0, len(products), steps):
                group = products[turn : turn + steps]
                tile = turn // steps * replicas + number
                bars.append(Bar(group[0].start, group[-1].end, str(tile), hue_of(number)))
            writes = [span for span in found.of("store") if span.role == name]
            stores[name] = [
                Bar(one.start, two.end, str(n * replicas + number), hue_of(number))
                for n, (one, two) in enumerate(zip(writes[::2], writes[1::2], strict=True))
            ]
        figure.lane("tensor cores", bars, scale, left, 22)
        for name in names:
            figure.lane(f"{name} stores", stores[name], scale, left, 22)
    figure.legend([(hue_of(0), "mma.0, or the only role"), (hue_of(1), "mma.1")])
    return figure.svg()


# ----------------------------------------------------------------------------- multicast


def multicast(page: dict[str, Any]) -> str:
    """Who brings what to the barriers of slot 0 in both blocks of a cluster."""
    a, b = _zeros(128, 64), _zeros(64, 64)
    c = np.zeros((128, 64), np.float32)
    (found,) = record(page["shared_tiles"].compile(a, b, c), (a, b, c), grid=2)
    return _cluster(found)


def _cluster(found: Record) -> str:
    figure = Figure("One stage in a cluster of two blocks")
    figure.note("Solid: loads into slot 0, with their bytes. Dashed: arrivals that free it.")
    tops, height = (MARGIN + 60, MARGIN + 216), 112.0
    loader, slot, reader = (MARGIN, 96.0), (300.0, 196.0), (WIDTH - MARGIN - 96, 96.0)
    for rank, top in enumerate(tops):
        hue = hue_of(rank)
        full, empty = (found.changes(f"pipeline.{w}[0]@{rank}") for w in ("full", "empty"))
        for (x, width), name in ((loader, "load"), (reader, "mma")):
            figure.rect(x, top, width, height, "cell", hue=hue)
            figure.text(x + width / 2, top + 52, name, NORMAL, width=width, bold=True, middle=True)
            block = f"block {rank}"
            figure.text(x + width / 2, top + 70, block, SMALL, width=width, middle=True)
        x, width = slot
        figure.rect(x, top, width, height, "box")
        title = f"block {rank}, slot 0"
        figure.text(x + 10, top + 18, title, NORMAL, width=width, bold=True)
        announced = max(state.nbytes for state in full)
        rows = [
            ("full", _arrivals(full[0].arrivals)),
            ("", f"{announced} bytes"),
            ("empty", _arrivals(empty[0].arrivals)),
        ]
        for number, texts in enumerate(rows):
            for text, at in zip(texts, (10, 62), strict=True):
                y = top + 48 + 18 * number
                figure.text(x + at, y, text, SMALL, width=width - at, kind="dim")
    freed = [found.changes(f"pipeline.empty[0]@{rank}")[-1].phase for rank in range(len(tops))]
    assert freed == [1, 1], "each slot gets all of the arrivals that are drawn"
    _loads(figure, found, tops, loader[0] + loader[1], slot[0])
    for source, top in enumerate(tops):
        for target, other in enumerate(tops):
            start, end = top + 30 + 52 * target, other + 30 + 52 * source
            figure.slanted(reader[0], start, slot[0] + slot[1], end, "5 4")
    figure.y = tops[-1] + height
    return figure.svg()


def _loads(
    figure: Figure, found: Record, tops: tuple[float, ...], left: float, right: float
) -> None:
    """Arrows for the copies of slot 0, from each loader into each block."""
    copies: dict[tuple[int, int], list[int]] = {}
    for span in found.of("copy"):
        if span.stage == 0:
            copies.setdefault((span.source, span.target), []).append(span.nbytes)
    for (source, target), sizes in copies.items():
        start, end = tops[source] + 30 + 52 * target, tops[target] + 30 + 52 * source
        figure.slanted(left, start, right, end)
        label = " + ".join(map(str, sizes))
        y = start + (15 if target < source else -6)  # on the other side of a rising arrow
        figure.text(left + 10, y, label, SMALL, width=right - left, kind="dim")


def _arrivals(number: int) -> str:
    return "1 arrival" if number == 1 else f"{number} arrivals"


def explained(page: dict[str, Any]) -> str:
    """What ``kernel.explain`` draws of the page's ``ping_pong``."""
    matrix = td.spec((4096, 4096), td.bfloat16)
    return str(page["ping_pong"].explain(matrix, matrix, matrix).svg)
