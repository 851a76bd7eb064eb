"""What was recorded: ``<group>.npz`` files, each with the answers of all probes of a group.

Arrays: ``names``, ``digests`` (of what went in), ``ends`` (where each probe's bytes end) and
``data`` (bytes); ``refused``, ``reasons``: probes that gave no answer, and why; ``about``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["FOLDER", "Answer", "load", "store"]

Array = np.ndarray[Any, Any]
FOLDER = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Answer:
    """The bytes that the GPU gave for one probe; or why it gave none."""

    digest: str
    data: Array
    refused: str = ""


def store(folder: Path, group: str, answers: dict[str, Answer], about: str) -> Path:
    """Write one group."""
    good = {name: it for name, it in answers.items() if not it.refused}
    bad = {name: it for name, it in answers.items() if it.refused}
    path = folder / f"{group}.npz"
    np.savez_compressed(
        path,
        names=np.array(list(good), dtype=np.str_),
        digests=np.array([it.digest for it in good.values()], dtype=np.str_),
        ends=np.cumsum([it.data.size for it in good.values()], dtype=np.int64),
        data=np.concatenate([np.zeros(0, np.uint8), *(it.data for it in good.values())]),
        refused=np.array(list(bad), dtype=np.str_),
        refused_digests=np.array([it.digest for it in bad.values()], dtype=np.str_),
        reasons=np.array([it.refused for it in bad.values()], dtype=np.str_),
        about=np.array(about),
    )
    return path


@cache
def load(group: str, folder: Path = FOLDER) -> dict[str, Answer]:
    """The answers of one group by the probe's name; empty without a file."""
    path = folder / f"{group}.npz"
    if not path.exists():
        return {}
    with np.load(path, allow_pickle=False) as kept:
        starts = [0, *kept["ends"].tolist()]
        found = {
            str(name): Answer(str(digest), kept["data"][start:end])
            for name, digest, start, end in zip(
                kept["names"], kept["digests"], starts, starts[1:], strict=False
            )
        }
        # The first recordings had no digests of what was refused.
        digests = (
            kept["refused_digests"] if "refused_digests" in kept else [""] * len(kept["refused"])
        )
        for name, digest, reason in zip(kept["refused"], digests, kept["reasons"], strict=True):
            found[str(name)] = Answer(str(digest), np.zeros(0, np.uint8), str(reason))
    return found
