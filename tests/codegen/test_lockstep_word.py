"""The word that loops in lockstep count in: the PTX itself, run by many blocks in random order.

A few lines interpret the instructions of ``nvptx/lockstep.py``; each access to the word is one
step, and between any two another block may come.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from tests.kernels.oracle import fresh_seed
from tiledsl.codegen.nvptx.lockstep import ENTER, GAVE_UP, LEAVE, PACE

MASK = 2**64 - 1


@dataclass
class Device:
    """The word, and a clock that every step of any block advances."""

    tick: int
    word: int = 0
    clock: int = 0
    gave_up: int = 0


def run(device: Device, text: str, awaited: int = 0) -> Iterator[None]:
    """One thread's inline PTX; yields in front of every access to the word."""
    registers: dict[str, int] = {"$1": awaited, "%clock64": 0}
    code: list[tuple[str, str]] = []
    labels: dict[str, int] = {}
    for part in text.strip("{} ").split(";"):
        line = part.strip()
        while label := re.match(r"(\w+\$\{:uid\}):\s*", line):
            labels[label[1]] = len(code)
            line = line[label.end() :]
        guard = re.match(r"@(\w+) ", line)
        line = line[guard.end() :] if guard else line
        if line and not line.startswith(".reg"):
            code.append((guard[1] if guard else "", line))

    def value(text: str) -> int:
        return registers[text] if text in registers else int(text, 0) & MASK

    at = 0
    while at < len(code):
        guard_name, line = code[at]
        at += 1
        if guard_name and not registers[guard_name]:
            continue
        opcode, _, rest = line.partition(" ")
        args = [arg.strip() for arg in rest.split(",")]
        registers["%clock64"] = device.clock
        if "[$0]" in args:
            yield
            old = device.word
            match opcode.split("."):
                case ["ld", *_]:
                    pass
                case [_, *_, "add", "u64"]:
                    device.word = (old + value(args[-1])) & MASK
                case [_, *_, "or", "b64"]:
                    device.word = old | value(args[-1])
                    device.gave_up += 1
                case [_, *_, "cas", "b64"]:
                    device.word = value(args[-1]) if old == value(args[-2]) else old
                case _:
                    raise ValueError(opcode)
            if args[0] != "[$0]":
                registers[args[0]] = old
            continue
        target, *inputs = args
        match opcode:
            case "bra":
                at = labels[target]
            case "mov.u64":
                registers[target] = value(inputs[0])
            case "setp.ge.u64":
                registers[target] = value(inputs[0]) >= value(inputs[1])
            case "setp.lt.u64":
                registers[target] = value(inputs[0]) < value(inputs[1])
            case "setp.eq.u64":
                registers[target] = value(inputs[0]) == value(inputs[1])
            case "shr.u64":
                registers[target] = value(inputs[0]) >> value(inputs[1])
            case "sub.u64":
                registers[target] = (value(inputs[0]) - value(inputs[1])) & MASK
            case "and.b64":
                registers[target] = value(inputs[0]) & value(inputs[1])
            case _:
                raise ValueError(line)


@dataclass
class Launch:
    """Blocks that deal ``total`` tiles; ``begun`` counts the tickets of each."""

    blocks: int
    total: int
    begun: list[int] = field(default_factory=list)
    ahead: int = 0  # rounds that a block passed the wait before one with tiles left came to it

    def block(self, device: Device, number: int) -> Iterator[None]:
        yield from run(device, ENTER)
        for tile in range(number, self.total, self.blocks):
            rounds = tile // self.blocks + 1
            pace = run(device, PACE, min(rounds * self.blocks, self.total))
            next(pace)
            yield
            next(pace)  # it has its ticket now
            self.begun[number] = rounds
            yield
            yield from pace
            others = [n for b, n in enumerate(self.begun) if b + n * self.blocks < self.total]
            self.ahead = max(self.ahead, rounds - min(others, default=rounds))
            for _ in range(random.randrange(5)):
                yield
        yield from run(device, LEAVE)


def play(device: Device, launches: Sequence[Launch], resident: int) -> None:
    """Run launches at once, at most ``resident`` blocks at a time, in a random order."""
    waiting = []
    for launch in launches:
        launch.begun = [0] * launch.blocks
        waiting.append([launch.block(device, n) for n in range(launch.blocks)])
    running: list[Iterator[None]] = []
    steps = 0
    while running or any(waiting):
        while len(running) < resident and any(waiting):
            running.append(random.choice([blocks for blocks in waiting if blocks]).pop(0))
        block = random.choice(running)
        device.clock += device.tick
        try:
            next(block)
        except StopIteration:
            running.remove(block)
        steps += 1
        assert steps < 1_000_000, "the blocks wait for ever"
    for launch in launches:
        assert sum(launch.begun) == launch.total


@pytest.fixture(autouse=True)
def seeded() -> None:
    random.seed(fresh_seed())


def test_blocks_that_run_at_once_stay_together() -> None:
    """Launch behind launch, of any grid: nobody is ahead, and no wait runs out."""
    device = Device(tick=1)
    for _ in range(20):
        launch = Launch(random.randint(1, 8), random.randint(0, 40))
        play(device, [launch], resident=8)
        assert device.word == 0
        assert launch.ahead == 0
    assert device.gave_up == 0


@pytest.mark.parametrize("resident", [1, 3])
def test_blocks_that_do_not_run_hold_nobody_up(resident: int) -> None:
    for _ in range(10):
        device = Device(tick=2000)
        launch = Launch(random.randint(resident + 1, 12), random.randint(1, 60))
        play(device, [launch], resident)
        assert device.word == 0
        assert device.gave_up <= launch.blocks  # each once at most


def test_launches_at_once() -> None:
    """They disturb each other, and leave nothing behind that would disturb the next one."""
    for _ in range(20):
        device = Device(tick=500)
        both = [Launch(random.randint(1, 8), random.randint(0, 30)) for _ in range(3)]
        play(device, both, resident=random.randint(1, 16))
        assert device.word == 0
        device.tick, device.gave_up = 1, 0
        after = Launch(random.randint(1, 8), random.randint(0, 40))
        play(device, [after], resident=8)
        assert (device.word, device.gave_up) == (0, 0)
        assert after.ahead == 0


def test_who_gives_up_releases_the_others() -> None:
    device = Device(tick=1, word=GAVE_UP)
    for _ in run(device, PACE, awaited=2**39):
        pass
    assert device.gave_up == 0
