"""Assemble all probes with ptxas, each kernel: what is refused, and why (no GPU needed)."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.ptx_machine.conformance.catalogue import catalogue
from tests.ptx_machine.conformance.probe import HEADER, Probe, module_text


def refused(probes: list[Probe]) -> list[tuple[Probe, str]]:
    """Probes that ptxas does not take, with its first message each."""
    if not probes:
        return []
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "all.ptx")
        source.write_text(module_text(probes))
        command = ["ptxas", "--gpu-name=sm_90a", str(source), "-o", f"{folder}/all.cubin"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return []
        starts, at = [], HEADER.count("\n") + 1
        for i, probe in enumerate(probes):
            starts.append(at)
            at += probe.entry(f"k{i}").count("\n") + 1
        found: dict[int, str] = {}
        for line, text in re.findall(r"line (\d+);?.*?: (.*)", done.stderr):
            index = max(i for i, start in enumerate(starts) if start <= int(line))
            found.setdefault(index, text)
        if not found:
            if len(probes) == 1:
                return [(probes[0], done.stderr.strip()[-300:])]
            middle = len(probes) // 2
            return refused(probes[:middle]) + refused(probes[middle:])
        bad = [(probes[i], text) for i, text in sorted(found.items())]
        return bad + refused([p for i, p in enumerate(probes) if i not in found])


def main() -> int:
    probes = list(catalogue(sys.argv[1:]).values())
    bad = refused(probes)
    for probe, text in bad:
        print(f"{probe.name}: {text}")
    print(f"{len(probes)} probes, {len(bad)} refused")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
