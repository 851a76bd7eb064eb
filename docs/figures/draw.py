"""Lanes over time, labelled boxes and slanted arrows, on the canvas of ``kernel.explain``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tiledsl.codegen.explain.canvas import HUES, Canvas, text_width

MARGIN, WIDTH = 18.0, 760.0
TITLE, NORMAL, SMALL = 15.0, 12.0, 11.0  # font sizes
LANE, GAP = 26.0, 8.0


@dataclass(frozen=True, slots=True)
class Bar:
    """A stretch of a lane; ``hue`` "" is a plain box."""

    start: float
    end: float
    text: str
    hue: str = ""
    faint: bool = False


class Figure(Canvas):
    """A canvas that knows how far down it is."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self.title = title
        self.y = MARGIN + TITLE
        self.text(MARGIN, self.y, title, TITLE, width=WIDTH - 2 * MARGIN, bold=True)
        self.y += GAP

    def note(self, text: str) -> None:
        """A line of explanation; it must fit."""
        room = WIDTH - 2 * MARGIN
        if text_width(text, NORMAL) > room:
            raise ValueError(f"too long for the figure: {text}")
        self.y += 17
        self.text(MARGIN, self.y, text, NORMAL, width=room, kind="dim")

    def heading(self, text: str) -> None:
        self.y += 26
        self.text(MARGIN, self.y, text, NORMAL, width=WIDTH - 2 * MARGIN, bold=True)
        self.y += 8

    def lane(
        self, name: str, bars: Sequence[Bar], scale: float, left: float, height: float = LANE
    ) -> None:
        """A row with its name at the left and its bars from ``left`` on."""
        self.text(MARGIN, self.y + height / 2 + 4, name, SMALL, width=left - MARGIN, kind="dim")
        self.line(left, self.y + height, WIDTH - MARGIN, self.y + height, "life")
        for bar in bars:
            self.cell(
                left + bar.start * scale, self.y + 2, (bar.end - bar.start) * scale, height - 4, bar
            )
        self.y += height + 2

    def cell(self, x: float, y: float, width: float, height: float, bar: Bar) -> None:
        self.rect(x, y, width, height, "box" if bar.faint else "cell", round=2, hue=bar.hue)
        if not bar.text:
            return
        size = SMALL if text_width(bar.text, SMALL) <= width else 9.5
        if text_width(bar.text, size) > width:
            raise ValueError(f"{bar.text!r} does not fit into {width:g}")
        self.text(x + width / 2, y + height / 2 + 4, bar.text, size, width=width + 1, middle=True)

    def legend(self, entries: Sequence[tuple[str, str]]) -> None:
        """Colours and what they stand for, in one line."""
        self.y += GAP
        x = MARGIN
        for hue, text in entries:
            self.rect(x, self.y, 11, 11, "cell", round=2, hue=hue)
            self.text(x + 17, self.y + 10, text, SMALL, width=WIDTH, kind="dim")
            x += 17 + text_width(text, SMALL) + 16
        if x > WIDTH:
            raise ValueError(f"the legend is {x:g} wide")
        self.y += 14

    def slanted(self, x1: float, y1: float, x2: float, y2: float, dash: str = "") -> None:
        """A straight arrow with its head at the second point."""
        length = math.hypot(x2 - x1, y2 - y1)
        dx, dy = (x2 - x1) / length, (y2 - y1) / length
        bx, by = x2 - 8 * dx, y2 - 8 * dy
        self.line(x1, y1, round(bx, 2), round(by, 2), "line", dash)
        left = f"{bx - 4 * dy:.2f} {by + 4 * dx:.2f}"
        right = f"{bx + 4 * dy:.2f} {by - 4 * dx:.2f}"
        self._parts.append(f'<path d="M{x2:g} {y2:g}L{left}L{right}z" class="tdx-head"/>')

    def svg(self) -> str:
        return self.document(WIDTH, self.y + MARGIN, self.title)


def hue_of(number: int) -> str:
    return HUES[number % len(HUES)]
