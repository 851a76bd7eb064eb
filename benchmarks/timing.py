"""How a call on the GPU is timed, in two ways that answer two questions.

*cold*: one call alone. The GPU idles some milliseconds, then spins for about two while the host
queues start event, call and end event, so that only the GPU's time is between the events, at the
clock that an idle chip can reach.

*mix*: all contenders and shapes one after the other without a pause, in an order that is drawn
anew in each round: what a call takes on a busy, hot chip.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

SPIN_CYCLES = 4_000_000  # about 2 ms at 1.98 GHz
IDLE_SECONDS = 0.02
# More than this much must pass through memory before a buffer is used again, so that the second
# level cache (60 MB on an H200) does not hold it.
ROTATED_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Sample:
    """Times of one contender on one shape, in microseconds."""

    times: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.times)

    @property
    def spread(self) -> float:
        """Half of what lies between the 10 % and the 90 % quantile, as a fraction of the median."""
        deciles = statistics.quantiles(self.times, n=10)
        return (deciles[-1] - deciles[0]) / 2 / self.median


Call = Callable[[], object]


def _events(torch: Any) -> tuple[Any, Any]:
    return torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)


def cold(torch: Any, calls: Sequence[Call], repeats: int, seed: int = 0) -> list[Sample]:
    """Each call alone, behind an idle GPU and a spin; contenders in random order."""
    order, rng = list(range(len(calls))), random.Random(seed)
    times: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()
    for _ in range(repeats):
        rng.shuffle(order)
        for number in order:
            start, end = _events(torch)
            torch.cuda.synchronize()
            time.sleep(IDLE_SECONDS)
            torch.cuda._sleep(SPIN_CYCLES)
            start.record()
            calls[number]()
            end.record()
            torch.cuda.synchronize()
            times[number].append(start.elapsed_time(end) * 1e3)
    return [Sample(tuple(each)) for each in times]


def mix(torch: Any, calls: Sequence[Call], repeats: int, seed: int = 0) -> list[Sample]:
    """All calls back to back, each round in another order; the first rounds warm the chip up."""
    order, rng = list(range(len(calls))), random.Random(seed)
    pairs: list[list[tuple[Any, Any]]] = [[] for _ in calls]
    warm_up = max(3, repeats // 5)
    # The host gets ahead here, and stays ahead, so that no call waits for its own launch.
    torch.cuda._sleep(SPIN_CYCLES)
    for round_number in range(warm_up + repeats):
        rng.shuffle(order)
        for number in order:
            start, end = _events(torch)
            start.record()
            calls[number]()
            end.record()
            if round_number >= warm_up:
                pairs[number].append((start, end))
    torch.cuda.synchronize()
    return [Sample(tuple(a.elapsed_time(b) * 1e3 for a, b in each)) for each in pairs]


class Rotated:
    """Several sets of buffers for one problem, given out in turn."""

    def __init__(self, make: Callable[[], tuple[Any, ...]], nbytes: int) -> None:
        count = max(2, -(-ROTATED_BYTES // max(1, nbytes)) + 1)
        self.sets = [make() for _ in range(count)]
        self.used = 0

    def following(self) -> tuple[Any, ...]:
        self.used = (self.used + 1) % len(self.sets)
        return self.sets[self.used]


def host_microseconds(torch: Any, call: Call, batches: int = 25, size: int = 200) -> float:
    """What one call costs the host when the GPU keeps up; the median of some batches."""
    for _ in range(size):
        call()
    each = []
    for _ in range(batches):
        torch.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(size):
            call()
        each.append((time.perf_counter() - started) / size * 1e6)
    torch.cuda.synchronize()
    return statistics.median(each)


def geometric_mean(ratios: Sequence[float]) -> float:
    return statistics.geometric_mean(ratios) if ratios else float("nan")
