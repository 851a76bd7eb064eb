"""A few shapes of SVG, drawn by hand: text in boxes of known size, rectangles, lines, arrows.

Colours come from a style sheet of the picture's own with a light and a dark half, and the picture
brings its background along: it can be read on any page. Text is set in a monospaced font, so that
its width is known without measuring it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from xml.sax.saxutils import escape

ADVANCE = 0.61  # of a character, in parts of the font size: the widest of the usual fonts
ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"

_FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"

# Filled areas of the shared-memory map, and of rings: readable under black and under white text.
HUES = ("4c8fd6", "d98a3d", "5aa469", "b072c4", "c9605f", "4aa3a2", "8d8f3f", "7f7fd0")

_LIGHT = {"bg": "ffffff", "edge": "d0d7de", "ink": "1f2328", "dim": "57606a", "box": "f6f8fa"}
_DARK = {"bg": "161b22", "edge": "3d444d", "ink": "e6edf3", "dim": "9da7b3", "box": "21262d"}


def text_width(text: str, size: float) -> float:
    """The most that a text takes."""
    return len(text) * size * ADVANCE


def fit(text: str, size: float, width: float) -> str:
    """The text, shortened where it does not fit."""
    room = int(width / (size * ADVANCE) + 1e-6)  # a column is as wide as its longest text
    return text if len(text) <= room else text[: max(room - 1, 0)] + ELLIPSIS


def _colours(palette: dict[str, str]) -> str:
    c = {name: f"#{value}" for name, value in palette.items()}
    return (
        f".tdx-bg{{fill:{c['bg']};stroke:{c['edge']}}}"
        f".tdx-box{{fill:{c['box']};stroke:{c['edge']}}}"
        f".tdx-cell{{stroke:{c['ink']}}}"
        f".tdx-line{{stroke:{c['dim']};fill:none}}"
        f".tdx-life{{stroke:{c['edge']};fill:none}}"
        f".tdx-head{{fill:{c['dim']};stroke:none}}"
        f".tdx-ink{{fill:{c['ink']}}}.tdx-dim{{fill:{c['dim']}}}"
    )


def _style() -> str:
    return (
        f".tdx text{{font-family:{_FONT}}}{_colours(_LIGHT)}"
        f"@media (prefers-color-scheme:dark){{{_colours(_DARK)}}}"
    )


@dataclass(slots=True)
class Canvas:
    """Collects shapes; what is drawn later lies above."""

    _parts: list[str] = field(default_factory=list)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: float,
        *,
        width: float,
        kind: str = "ink",
        bold: bool = False,
        middle: bool = False,
    ) -> None:
        """A line of text with its baseline at ``y``, shortened to ``width`` where it is longer."""
        shown = fit(text, size, width)
        weight = ' font-weight="600"' if bold else ""
        anchor = ' text-anchor="middle"' if middle else ""
        whole = "" if shown == text else f"<title>{escape(text)}</title>"
        self._parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" class="tdx-{kind}"{weight}{anchor}>'
            f"{escape(shown)}{whole}</text>"
        )

    def rect(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        kind: str,
        *,
        round: float = 4,
        hue: str = "",
        name: str = "",
    ) -> None:
        fill = f' fill="#{hue}" fill-opacity="0.35"' if hue else ""
        title = f"<title>{escape(name)}</title>" if name else ""
        self._parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{round:g}"'
            f' class="tdx-{kind}"{fill}>{title}</rect>'
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str, dash: str = "") -> None:
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self._parts.append(
            f'<path d="M{x1:g} {y1:g}L{x2:g} {y2:g}" class="tdx-{kind}" stroke-width="1.5"'
            f"{dashes}/>"
        )

    def arrow(self, x1: float, y: float, x2: float, dash: str = "") -> None:
        """A level line with its head at ``x2``."""
        back = 7 if x2 > x1 else -7
        self.line(x1, y, x2 - back, y, "line", dash)
        self._parts.append(f'<path d="M{x2:g} {y:g}l{-back:g} -4v8z" class="tdx-head"/>')

    def dot(self, x: float, y: float) -> None:
        self._parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="3.5" class="tdx-head"/>')

    def document(self, width: float, height: float, title: str) -> str:
        """All of it, on a card of this size."""
        w, h = f"{width:g}", f"{height:g}"
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="tdx" width="{w}" height="{h}"'
            f' viewBox="0 0 {w} {h}" role="img">'
            f"<title>{escape(title)}</title><style>{_style()}</style>"
            f'<rect x="0.5" y="0.5" width="{width - 1:g}" height="{height - 1:g}" rx="10"'
            f' class="tdx-bg"/>{"".join(self._parts)}</svg>'
        )
