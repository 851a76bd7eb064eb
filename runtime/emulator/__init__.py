"""The CPU meaning of the IR: runs protocol-level IR on NumPy.

Roles are coroutines, mbarriers have phases, pending arrivals and transaction bytes, and TMA and
wgmma are agents that act at a moment of their own choosing. ``emulate`` is all that others need.
"""

from tiledsl.runtime.emulator.emulate import emulate
from tiledsl.runtime.emulator.machine import EmulationResult

__all__ = ["EmulationResult", "emulate"]
