"""Roles, rings and stages as a picture.

Roles stand at the top, each with a line downwards. Rings stand at the left, one below the other,
with their stages. An arrow from a role's line to a ring says that it fills stages, one from a ring
to a line that the role takes them. Below all, shared memory to scale.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tiledsl.codegen.explain.canvas import ELLIPSIS, HUES, Canvas, text_width
from tiledsl.codegen.explain.facts import Barriers, Facts, Ring, Role, cluster_text
from tiledsl.codegen.explain.table import (
    array_text,
    mode_text,
    registers_text,
    stages_text,
    warps_text,
)
from tiledsl.errors import counted

MARGIN = 18.0
TITLE, NORMAL, SMALL = 15.0, 12.0, 11.0  # font sizes
LINE = 16.0  # from one line of text to the next
PAD = 10.0  # inside of boxes
GAP = 14.0  # between boxes
CELL = 24.0  # height of a stage
MOST_CELLS = 12
MOST_WIDTH = 380.0  # of a column of text
LANE = 34.0  # of one arrow with its label


@dataclass(frozen=True, slots=True)
class _Lane:
    """One role, or the replicas of one, at a ring."""

    group: str
    label: str
    fills: bool


@dataclass(slots=True)
class _Row:
    """What stands at the left, with the roles that use it."""

    title: str
    lines: list[str]
    stages: int
    lanes: list[_Lane] = field(default_factory=list)

    @property
    def box_height(self) -> float:
        cells = CELL + PAD if self.stages else 0
        return 2 * PAD + LINE * (1 + len(self.lines)) + cells - 4

    @property
    def height(self) -> float:
        return max(self.box_height, LANE * len(self.lanes) + PAD)


def picture(facts: Facts) -> str:
    """The picture as an SVG document."""
    return _Picture(facts).draw()


class _Picture:
    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.canvas = Canvas()
        self.rows = [_ring_row(ring) for ring in facts.rings]
        self.rows += [_barrier_row(row) for row in facts.barriers]
        self.names = [ring.name for ring in facts.rings] + [row.name for row in facts.barriers]
        texts = [(row.title, NORMAL) for row in self.rows]
        texts += [(line, SMALL) for row in self.rows for line in row.lines]
        self.box = _column(texts, 200) + 2 * PAD
        self.labels = _column([(a.label, SMALL) for r in self.rows for a in r.lanes], 60) + 2 * GAP
        self.heads = [_head(role) for role in facts.roles]
        self.columns = [
            _column([(text, NORMAL) for text in head], 90) + 2 * PAD for head in self.heads
        ]
        self.left = MARGIN + (self.box + self.labels if self.rows else 0)
        roles = sum(self.columns) + GAP * (len(self.columns) - 1)
        title = text_width(_title(facts), TITLE)
        self.width = 2 * MARGIN + max(self.left - MARGIN + roles, title, 420)

    def draw(self) -> str:
        canvas, facts = self.canvas, self.facts
        y = MARGIN + TITLE
        room = self.width - 2 * MARGIN
        canvas.text(MARGIN, y, _title(facts), TITLE, width=room, bold=True)
        canvas.text(MARGIN, y + LINE + 2, _subtitle(facts), NORMAL, width=room, kind="dim")
        top = y + LINE + 2 + GAP
        head_height = LINE * max((len(head) for head in self.heads), default=0) + 2 * PAD - 4
        bottom = top + head_height + GAP + sum(row.height + GAP for row in self.rows)
        lives = self._roles(top, head_height, bottom)
        y = top + head_height + GAP
        for number, row in enumerate(self.rows):
            self._row(row, y, lives, HUES[number % len(HUES)])
            y += row.height + GAP
        y = self._memory(y)
        return canvas.document(self.width, y + MARGIN - GAP, f"{facts.name}: roles, rings, stages")

    # ---------------------------------------------------------------------------- roles

    def _roles(self, top: float, height: float, bottom: float) -> dict[str, float]:
        """Draw the roles; where the line of each stands."""
        lives: dict[str, float] = {}
        x = self.left
        for role, head, width in zip(self.facts.roles, self.heads, self.columns, strict=True):
            middle = x + width / 2
            lives[role.name] = middle
            if self.rows:
                self.canvas.line(middle, top + height, middle, bottom - GAP, "life", "4 4")
            self.canvas.rect(x, top, width, height, "box", name=f"role {role.name}")
            for number, text in enumerate(head):
                self.canvas.text(
                    middle,
                    top + PAD + LINE * number + NORMAL - 2,
                    text,
                    NORMAL,
                    width=width - PAD,
                    bold=number == 0,
                    kind="ink" if number == 0 else "dim",
                    middle=True,
                )
            x += width + GAP
        return lives

    # ---------------------------------------------------------------------------- rings

    def _row(self, row: _Row, y: float, lives: dict[str, float], hue: str) -> None:
        canvas = self.canvas
        canvas.rect(MARGIN, y, self.box, row.box_height, "box", name=row.title)
        room = self.box - 2 * PAD
        at = y + PAD + NORMAL - 2
        canvas.text(MARGIN + PAD, at, row.title, NORMAL, width=room, bold=True)
        for line in row.lines:
            at += LINE
            canvas.text(MARGIN + PAD, at, line, SMALL, width=room, kind="dim")
        if row.stages:
            self._cells(row.stages, at + PAD, room, hue)
        for number, lane in enumerate(row.lanes):
            self._lane(lane, y + LANE * (number + 1) - PAD, lives)

    def _cells(self, stages: int, y: float, room: float, hue: str) -> None:
        shown = min(stages, MOST_CELLS)
        width = room / shown
        for number in range(shown):
            text = ELLIPSIS if stages > shown and number == shown - 2 else str(number)
            if stages > shown and number == shown - 1:
                text = str(stages - 1)
            x = MARGIN + PAD + number * width
            self.canvas.rect(x, y, width, CELL, "cell", round=2, hue=hue, name=f"stage {text}")
            self.canvas.text(x + width / 2, y + CELL - 8, text, SMALL, width=width, middle=True)

    def _lane(self, lane: _Lane, y: float, lives: dict[str, float]) -> None:
        edge = MARGIN + self.box
        ends = sorted(
            lives[role.name] for role in self.facts.roles if lane.group in (role.name, role.group)
        )
        if not ends:
            return
        room = self.labels - 2 * GAP + 2
        self.canvas.text(edge + GAP, y - 6, lane.label, SMALL, width=room, kind="dim")
        if lane.fills:
            self.canvas.arrow(ends[-1], y, edge)
        else:
            self.canvas.arrow(edge, y, ends[-1] - 3)
        for x in ends:
            self.canvas.dot(x, y)

    # --------------------------------------------------------------------- shared memory

    def _memory(self, y: float) -> float:
        """Draw the map of shared memory to scale; where it ends."""
        facts = self.facts
        if not facts.shared:
            return y
        room = self.width - 2 * MARGIN
        share = 100 * facts.shared_bytes / facts.shared_limit
        text = f"shared memory: {facts.shared_bytes} of {facts.shared_limit} bytes ({share:.0f} %)"
        self.canvas.text(MARGIN, y + NORMAL, text, NORMAL, width=room, bold=True)
        y += LINE + 4
        self.canvas.rect(MARGIN, y, room, CELL, "box", round=2, name="not used")
        scale = room / facts.shared_limit
        for item in facts.shared:
            self.canvas.rect(
                MARGIN + item.offset * scale,
                y,
                max(item.nbytes * scale, 0.5),
                CELL,
                "cell" if item.nbytes * scale > 2 else "none",
                round=0,
                hue=self._hue(item.name),
                name=f"{item.name}: {item.nbytes} bytes",
            )
        return self._legend(y + CELL + GAP, room) + GAP

    def _hue(self, name: str) -> str:
        """The colour of an object in shared memory: all that belongs to a ring has the ring's."""
        owners = [*self.names, *dict.fromkeys(i.name.partition(".")[0] for i in self.facts.shared)]
        known = list(dict.fromkeys(owners))
        owner = name if name in known else name.partition(".")[0]
        return HUES[known.index(owner) % len(HUES)]

    def _legend(self, y: float, room: float) -> float:
        texts = [f"{item.name}  {item.nbytes}" for item in self.facts.shared]
        cell = _column([(text, SMALL) for text in texts], 120) + LINE + GAP
        across = max(1, int(room / cell))
        for number, text in enumerate(texts):
            x = MARGIN + number % across * cell
            at = y + number // across * LINE
            hue = self._hue(self.facts.shared[number].name)
            self.canvas.rect(x, at, 10, 10, "cell", round=2, hue=hue)
            self.canvas.text(x + LINE, at + 9, text, SMALL, width=cell - LINE - 4, kind="dim")
        return y + -(-len(texts) // across) * LINE


def _column(texts: Iterable[tuple[str, float]], least: float) -> float:
    """The width of a column of such texts."""
    widest = max((text_width(text, size) for text, size in texts), default=0.0)
    return min(max(widest, least), MOST_WIDTH)


def _title(facts: Facts) -> str:
    return f"{facts.name} for {facts.target}"


def _subtitle(facts: Facts) -> str:
    parts = [f"{facts.threads} threads a block"]
    if facts.persistent:
        parts.append("persistent")
    cluster = cluster_text(facts.cluster)
    if cluster:
        parts.append(f"clusters of {cluster}")
    return ", ".join(parts)


def _head(role: Role) -> list[str]:
    return [role.name, warps_text(role), mode_text(role), registers_text(role)]


# ------------------------------------------------------------------------- what stands at the left


def _ring_row(ring: Ring) -> _Row:
    arrays = [array_text(array) for array in ring.type.arrays]
    row = _Row(f"{ring.name}: {stages_text(ring)}", arrays or ["without tiles"], ring.type.stages)
    for group in ring.producers:
        row.lanes.append(_Lane(group, _fills(ring, group), True))
    for group in ring.consumers:
        row.lanes.append(_Lane(group, _takes(ring, group), False))
    return row


def _brings(ring: Ring, which: str, group: str) -> int:
    """Arrivals of a role, or of all its replicas, in a phase."""
    return sum(
        arrival.number
        for arrival in ring.arrivals[which]
        if arrival.role == group or arrival.role.rpartition(".")[0] == group
    )


def _fills(ring: Ring, group: str) -> str:
    sizes = sorted({f.nbytes for f in ring.fillings if f.role == group and f.nbytes})
    parts = [" or ".join(map(str, sizes)) + " bytes"] if sizes else []
    number = _brings(ring, "full", group)
    if number:
        parts.append(counted(number, "arrival"))
    return f"fills with {', '.join(parts)}" if parts else "fills"


def _takes(ring: Ring, group: str) -> str:
    number = _brings(ring, "empty", group)
    if not number:
        return "takes"
    brought = sum(arrival.number for arrival in ring.arrivals["empty"])
    blocks = ring.counts["empty"] // brought if brought and not ring.stated["empty"] else 1
    times = f" x {blocks} blocks" if blocks > 1 else ""
    return f"takes, frees with {counted(number, 'arrival')}{times}"


def _barrier_row(row: Barriers) -> _Row:
    number = counted(row.number, "mbarrier")
    what = f"of your own, {counted(row.count, 'arrival')} a phase"
    lanes = [_Lane(a.role, f"arrives: {a.number}", True) for a in row.arrivals]
    if row.turns:
        what = "the turns of the replicas"
        lanes = [_Lane(row.name.rpartition(".")[0], "one after the other", True)]
    return _Row(f"{row.name}: {number}", [what], 0, lanes)
