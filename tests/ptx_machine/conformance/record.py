"""Run all probes on a GPU and keep its answers: ``python -m ...conformance.record --out DIR``.

Each group runs in child processes, a module of several kernels at a time. A kernel that ends its
process (an illegal instruction, a hang) is put down as refused, and the rest go on in a new one.
"""

from __future__ import annotations

import argparse
import queue
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from tests.ptx_machine.conformance.catalogue import GROUPS, group
from tests.ptx_machine.conformance.data import Answer, store
from tests.ptx_machine.conformance.probe import Probe, module_text

MODULE = 48  # kernels of one module
PART = 250  # probes of one child, unless it dies
STALL = 20.0  # seconds after which a child that does nothing is ended
TIME = 110.0  # seconds after which no new child is started
_BEGIN = time.monotonic()


def child(name: str, first: int, last: int, folder: Path) -> None:
    """Probes first to last - 1 of a group: writes NUMBER.npy each, or NUMBER.txt: why not."""
    from tests.ptx_machine.conformance.driver import DriverError, Gpu

    probes, gpu = group(name), Gpu()
    (folder / "about.txt").write_text(f"{gpu.name}, driver CUDA {gpu.version}")
    for start in range(first, last, MODULE):
        numbers = range(start, min(start + MODULE, last))
        part = [probes[n] for n in numbers]
        modules: list[Any]
        try:
            modules = [gpu.load(module_text(part))] * len(part)
            kernels = [f"k{i}" for i in range(len(part))]
        except DriverError:
            modules, kernels = [], []
            for n, probe in zip(numbers, part, strict=True):
                try:
                    modules.append(gpu.load(module_text([probe])))
                except DriverError as problem:
                    (folder / f"{n}.txt").write_text(str(problem))
                    modules.append(None)
                kernels.append("k0")
        for n, probe, module, kernel in zip(numbers, part, modules, kernels, strict=True):
            if module is None:
                continue
            (folder / "now.txt").write_text(str(n))
            try:
                answer = gpu.run(module, kernel, probe)
            except DriverError as problem:
                (folder / f"{n}.txt").write_text(str(problem))
                if "Encode" not in str(problem):
                    sys.exit(3)  # the context is lost
                continue
            np.save(folder / f"{n}.npy", answer)


def run_part(name: str, first: int, last: int, folder: Path) -> None:
    """Children until each probe has an answer or a reason."""
    now = folder / "now.txt"
    while first < last and time.monotonic() - _BEGIN < TIME:
        now.unlink(missing_ok=True)
        command = [sys.executable, "-m", "tests.ptx_machine.conformance.record", "--child", name,
                   str(first), str(last), str(folder)]  # fmt: skip
        with (folder / "log.txt").open("w") as stream:
            process = subprocess.Popen(command, stdout=stream, stderr=stream)
            code = _watch(process, now)
        log = (folder / "log.txt").read_text()[-400:] if code != -9 else f"nothing for {STALL} s"
        if code == 0:
            return
        at = int(now.read_text()) if now.exists() else first
        if not (folder / f"{at}.txt").exists():
            (folder / f"{at}.txt").write_text(log or f"the process ended with {code}")
        print(f"  {name} {at}: {(folder / f'{at}.txt').read_text()[:200]}", flush=True)
        if not now.exists():
            return  # the child could not even begin
        first = at + 1


def _watch(process: subprocess.Popen[bytes], now: Path) -> int:
    """The exit code of a child; it is killed when its progress file does not change any more."""
    seen, since = "", time.monotonic()
    while True:
        try:
            return process.wait(0.1)
        except subprocess.TimeoutExpired:
            text = now.read_text() if now.exists() else ""
            if text != seen:
                seen, since = text, time.monotonic()
            if time.monotonic() - since > STALL:
                process.kill()
                process.wait()
                return -9


def record(out: Path, names: tuple[str, ...], workers: int) -> int:
    out.mkdir(parents=True, exist_ok=True)
    probes: dict[str, list[Probe]] = {name: group(name) for name in names}
    with tempfile.TemporaryDirectory() as temporary:
        jobs: queue.Queue[tuple[str, int, int, Path]] = queue.Queue()
        for name in names:
            for start in range(0, len(probes[name]), PART):
                folder = Path(temporary, f"{name}-{start}")
                folder.mkdir()
                jobs.put((name, start, min(start + PART, len(probes[name])), folder))

        def work() -> None:
            while True:
                try:
                    job = jobs.get_nowait()
                except queue.Empty:
                    return
                run_part(*job)

        threads = [threading.Thread(target=work) for _ in range(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        missing = 0
        for name in names:
            answers = {}
            about = ""
            for n, probe in enumerate(probes[name]):
                folder = Path(temporary, f"{name}-{n // PART * PART}")
                if (folder / "about.txt").exists():
                    about = (folder / "about.txt").read_text()
                if (folder / f"{n}.npy").exists():
                    answers[probe.name] = Answer(probe.digest(), np.load(folder / f"{n}.npy"))
                else:
                    reason = folder / f"{n}.txt"
                    text = reason.read_text() if reason.exists() else "no answer"
                    answers[probe.name] = Answer(probe.digest(), np.zeros(0, np.uint8), text)
                    print(f"refused: {name}: {probe.name}: {text[:300]}")
                    missing += 1
            path = store(out, name, answers, about)
            print(
                f"{name}: {len(answers)} probes, {path.stat().st_size} bytes ({about})", flush=True
            )
    return missing


def main() -> int:
    if len(sys.argv) > 1 and sys.argv[1] == "--child":
        child(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
        return 0
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--groups", nargs="*", default=list(GROUPS))
    parser.add_argument("--workers", type=int, default=4)
    options = parser.parse_args()
    start = time.monotonic()
    missing = record(options.out, tuple(options.groups), options.workers)
    print(f"{missing} without an answer; {time.monotonic() - start:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
