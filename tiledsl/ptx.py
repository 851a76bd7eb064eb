"""Runs any PTX on the PTX machine, on the CPU: hand-edited, or of another compiler.

Example::

    from tiledsl import ptx

    x, y = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    result = ptx.run(text, [x, y, 256], grid=2, block=128)
    print(result.instructions)

Not imported by ``import tiledsl``.
"""

from __future__ import annotations

from tiledsl.runtime.ptx_machine.errors import DecodeError
from tiledsl.runtime.ptx_machine.machine import Result
from tiledsl.runtime.ptx_machine.report import MachineFault
from tiledsl.runtime.ptx_machine.syntax import Parameter
from tiledsl.runtime.ptx_run import entries
from tiledsl.runtime.ptx_run import run_ptx as run
from tiledsl.runtime.ptx_values import Struct, TensorMap, described, struct

__all__ = [
    "DecodeError",
    "MachineFault",
    "Parameter",
    "Result",
    "Struct",
    "TensorMap",
    "described",
    "entries",
    "run",
    "struct",
]
