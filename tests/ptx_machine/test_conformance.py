"""The machine against what an H200 gave: every recorded probe, bit by bit (conformance/)."""

from __future__ import annotations

import pytest

from tests.ptx_machine.conformance.catalogue import GROUPS, group
from tests.ptx_machine.conformance.data import FOLDER, load
from tests.ptx_machine.conformance.pending import PATH, pending, recorded
from tests.ptx_machine.conformance.probe import Probe
from tests.ptx_machine.conformance.replay import differences, replay
from tiledsl.errors import TileError

# Probes of one test: so that a failure names its kind, and the whole takes seconds.
PART = 60


def parts() -> list[tuple[str, int]]:
    return [(name, start) for name in GROUPS for start in range(0, len(group(name)), PART)]


def failure(name: str, probe: Probe) -> str:
    """What is wrong with the machine's answer to a probe; "" if nothing is."""
    answer = load(name).get(probe.name)
    if not recorded(name, probe) and f"{name}: {probe.name}" in pending():
        return ""  # test_pending says when this ends
    if answer is None:
        return "no data: record it again"
    if not recorded(name, probe):
        return "the probe is another one than was recorded: record it again"
    try:
        got = replay(probe)
    except TileError as problem:
        return "" if answer.refused else str(problem).splitlines()[0]
    if answer.refused:
        return f"the GPU refuses it ({answer.refused[-60:]}), but the machine does not"
    return "\n    ".join(differences(probe, got, answer.data))


@pytest.mark.parametrize(("name", "start"), parts(), ids=lambda value: str(value))
def test_like_the_gpu(name: str, start: int) -> None:
    assert (FOLDER / f"{name}.npz").exists(), "data/ is part of the repository"
    probes = group(name)[start : start + PART]
    wrong = {probe.name: failure(name, probe) for probe in probes}
    report = [f"{probe}: {what}" for probe, what in wrong.items() if what]
    assert not report, f"{len(report)} of {len(probes)} probes:\n" + "\n".join(report[:12])


def test_pending() -> None:
    """No probe that has data, and none that does not exist any more, is waited for."""
    waited = pending()
    probes = {f"{name}: {probe.name}": (name, probe) for name in GROUPS for probe in group(name)}
    assert waited <= set(probes)
    there = [entry for entry in waited if recorded(*probes[entry])]
    assert not there, f"take these out of {PATH}: {there[:5]}"


@pytest.mark.parametrize("policy", ["eager", "random", "pct"])
def test_under_other_schedules(policy: str) -> None:
    """Copies, clusters and barriers give the same when things happen at other times."""
    for name in ("barriers", "copies", "lanes"):
        for k, probe in enumerate(group(name)[::5]):
            answer = load(name)[probe.name] if probe.name in load(name) else None
            if answer is None or answer.refused or answer.digest != probe.digest():
                continue  # test_like_the_gpu says so
            got = replay(probe, policy=policy, seed=k)
            assert not differences(probe, got, answer.data), f"{name}: {probe.name}"


def test_a_wrong_answer_is_noticed() -> None:
    (probe,) = [it for it in group("integers") if it.name.startswith("add.u32")]
    answer = load("integers")[probe.name].data.copy()
    answer[17] ^= 4
    assert differences(probe, replay(probe), answer)[0] == "result 0: 1 of 256 threads"
