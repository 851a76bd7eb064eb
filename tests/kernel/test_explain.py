"""``kernel.explain``: the derived facts as a table and as a picture."""

from __future__ import annotations

import itertools
import random
import re
import runpy
import string
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest

import tiledsl as td
from tests.errors.checks import BF, F32
from tests.errors.test_cluster_checks import every_block
from tests.errors.test_guards import own_tile, through_shared_memory
from tests.errors.test_turns import in_turns
from tests.golden import Golden
from tests.kernels.gemm import gemm, gemm_k_group
from tiledsl.codegen.explain import Explanation, Facts
from tiledsl.codegen.explain.canvas import ADVANCE
from tiledsl.codegen.explain.facts import Barriers, Ring, Role, Shared
from tiledsl.codegen.ir.plan import Arrival
from tiledsl.codegen.ir.types import RingType, TileArray
from tiledsl.errors import UNKNOWN_LOC, TypeMismatch

SAMPLE = Path(__file__).resolve().parents[2] / "samples" / "gemm.py"
SVG = "{http://www.w3.org/2000/svg}"


@td.kernel(warps=2)
def plain(x: td.Tensor):
    x[0] = 1.0


@td.kernel(grid=1)
def copied(a: td.Tensor, c: td.Tensor):
    """No load counts bytes; the producer drains."""
    pipeline = td.InputTilePipeline(td.TileArray(a.dtype, (64, 64), stages=3), 3)
    meet = td.named_barrier()
    with td.role("copy", warps=2):
        producer = pipeline.producer()
        with producer.acquire() as stage:
            td.async_copy(a, (0, 0), stage.tile(), stage.barrier())
        producer.drain()
        meet.sync()
    with td.role("take", warps=1):
        with pipeline.consumer().acquire() as stage:
            td.tma_store(stage.tile(), c, (0, 0))
        meet.sync()


EXPLAINED = {
    "gemm": lambda: gemm.explain(BF, BF, BF),
    "k_group": lambda: gemm_k_group.explain(BF, BF, BF),
    "in_turns": lambda: in_turns.explain(BF, td.int32),
    "through_shared_memory": lambda: through_shared_memory.explain(BF, F32),
    "own_tile": lambda: own_tile.explain(BF, F32),
    "cluster": lambda: every_block.explain(BF, td.int32),
    "copied": lambda: copied.explain(BF, BF),
    "plain": lambda: plain.explain(td.spec((8,), td.float32)),
}


def test_gemm_sample(golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SAMPLE.parent))
    sample = runpy.run_path(str(SAMPLE))["gemm"]
    explanation = sample.explain(BF, BF, BF)
    golden(str(explanation))
    golden(explanation.svg, ".svg")


@pytest.mark.parametrize("name", ["in_turns", "own_tile", "cluster", "copied", "plain"])
def test_table(name: str, golden: Golden) -> None:
    # Line numbers of the tests' files move with every edit.
    golden(re.sub(r"(\.py:)\d+", r"\1N", str(EXPLAINED[name]())))


def test_constants_and_targets() -> None:
    text = str(gemm.explain(BF, BF, BF, stages=2, BN=128, target="sm_90a"))
    assert "ring pipeline: 2 stages" in text
    assert "32768 a phase" in text
    with pytest.raises(TypeMismatch):
        gemm.explain(BF, BF)


def test_it_leaves_the_kernel_alone() -> None:
    own = td.kernel(grid=td.persistent)(gemm.function)
    own.explain(BF, BF, BF)
    assert own.variants == ()


def test_shown_in_a_notebook() -> None:
    explanation = gemm.explain(BF, BF, BF)
    assert explanation._repr_svg_() == explanation.svg
    shown = explanation._repr_html_()
    assert explanation.svg in shown
    assert "ring pipeline: 4 stages" in shown


# ------------------------------------------------------------------------------ the picture


@dataclass(frozen=True)
class Box:
    text: str
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


def text_boxes(root: ElementTree.Element) -> list[Box]:
    """Where each text stands: monospaced, so that its width is known."""
    boxes = []
    for element in root.iter(f"{SVG}text"):
        text = element.text or ""
        size = float(element.get("font-size", "nan"))
        x, y = float(element.get("x", "nan")), float(element.get("y", "nan"))
        width = len(text) * size * ADVANCE
        left = x - width / 2 if element.get("text-anchor") == "middle" else x
        boxes.append(Box(text, left, y - 0.8 * size, left + width, y + 0.22 * size))
    return boxes


def check_picture(explanation: Explanation) -> None:
    root = ElementTree.fromstring(explanation.svg)
    width, height = float(root.get("width", "0")), float(root.get("height", "0"))
    boxes = text_boxes(root)
    for box in boxes:
        assert box.left >= 0 and box.top >= 0, box
        assert box.right <= width and box.bottom <= height, (box, width, height)
    for one, other in itertools.combinations(boxes, 2):
        assert not one.meets(other), (one, other)
    names = {title.text for title in root.iter(f"{SVG}title")} | {box.text for box in boxes}
    for role in explanation.facts.roles:
        assert f"role {role.name}" in names
    for ring in explanation.facts.rings:
        assert any(str(name).startswith(f"{ring.name}: ") for name in names)
        cells = [name for name in names if re.fullmatch(r"stage \d+", str(name))]
        assert cells
    for item in explanation.facts.shared:
        assert f"{item.name}: {item.nbytes} bytes" in names


@pytest.mark.parametrize("name", EXPLAINED)
def test_picture(name: str) -> None:
    check_picture(EXPLAINED[name]())


def some_name(rng: random.Random) -> str:
    return "".join(rng.choices(string.ascii_letters + "_<&>", k=rng.choice((1, 5, 12, 80))))


def some_facts(rng: random.Random) -> Facts:
    """Facts of a kernel that need not exist: many roles and rings, long names."""
    names = list({some_name(rng) for _ in range(rng.randrange(0, 7))})
    modes = ("thread", "warps", "warpgroup")
    roles = [
        Role(name, name, 4 * n, 4, rng.choice(modes), 1, rng.randrange(24, 256), n % 2 == 0)
        for n, name in enumerate(names)
    ]
    rings = []
    for _ in range(rng.randrange(0, 6) if names else 0):
        arrays = tuple(
            TileArray(
                some_name(rng), (64,) * rng.randrange(1, 6), td.float16, 0, rng.randrange(1, 4)
            )
            for _ in range(rng.randrange(0, 5))
        )
        ring = Ring(some_name(rng), RingType(rng.randrange(1, 40), 1, arrays), UNKNOWN_LOC, ())
        ring.producers = rng.sample(names, rng.randrange(1, len(names) + 1))
        ring.consumers = rng.sample(names, rng.randrange(1, len(names) + 1))
        for which, users in (("full", ring.producers), ("empty", ring.consumers)):
            ring.arrivals[which] = tuple(Arrival(u, rng.randrange(1, 400), "why") for u in users)
            ring.counts[which] = 2 * sum(arrival.number for arrival in ring.arrivals[which])
            ring.stated[which] = rng.random() < 0.5
        rings.append(ring)
    own = [
        Barriers(some_name(rng), rng.randrange(1, 9), 1, (), False, UNKNOWN_LOC)
        for _ in range(rng.randrange(0, 3))
    ]
    shared, at = [], 0
    for _ in range(rng.randrange(0, 20)):
        shared.append(Shared(some_name(rng), at, rng.choice((8, 1024, 30000)), some_name(rng)))
        at += shared[-1].nbytes
    return Facts(
        some_name(rng), "sm_90a", 32, True, (2, 1), at, 1 << 20, rings, roles, own, [], shared, []
    )


@pytest.mark.parametrize("seed", range(20))
def test_any_picture(seed: int) -> None:
    explanation = Explanation(some_facts(random.Random(seed)))
    assert str(explanation)
    check_picture(explanation)
