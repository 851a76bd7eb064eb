"""Probes that are newer than the data: ``python -m tests.ptx_machine.conformance.pending``.

Run it behind a recording: it writes data/pending.txt anew, and removes it when nothing is missing.
"""

from __future__ import annotations

from tests.ptx_machine.conformance.catalogue import GROUPS, group
from tests.ptx_machine.conformance.data import FOLDER, load
from tests.ptx_machine.conformance.probe import Probe

__all__ = ["pending", "recorded"]

PATH = FOLDER / "pending.txt"


def pending() -> set[str]:
    """The probes that the tests wait for, "group: name" each."""
    return set(PATH.read_text().splitlines()) if PATH.exists() else set()


def recorded(name: str, probe: Probe) -> bool:
    """Whether there is an answer to a probe as it is now."""
    answer = load(name).get(probe.name)
    return answer is not None and answer.digest in (probe.digest(), "")


def main() -> None:
    missing = [
        f"{name}: {it.name}" for name in GROUPS for it in group(name) if not recorded(name, it)
    ]
    if missing:
        PATH.write_text("\n".join(missing) + "\n")
    else:
        PATH.unlink(missing_ok=True)
    print(f"{len(missing)} probes without data")


if __name__ == "__main__":
    main()
