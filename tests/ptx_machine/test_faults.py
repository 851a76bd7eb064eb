"""What the machine says about each class of fault, word for word; and its silence without it.

The messages lie in tests/golden/ptx_machine/test_faults/.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.golden import Golden
from tests.ptx_machine.fault_cases import CASES
from tests.ptx_machine.faulty import fault_of, start
from tiledsl.runtime.ptx_machine.isa.bulk_ops import (
    MAGIC,
    MAP_ADDRESS,
    MAP_BOX,
    MAP_BYTES,
    MAP_COLUMNS,
    MAP_EXTENT,
    MAP_RANK,
    MAP_STEP,
    MAP_STRIDE,
)
from tiledsl.runtime.ptx_machine.opcodes import FAULTS, GLOBAL_BASE


@pytest.mark.parametrize("name", CASES)
def test_message(name: str, golden: Golden) -> None:
    case = CASES[name]
    fault = fault_of(case.faulty, **case.options, **case.more)
    assert fault.kind == case.kind
    assert fault.ptx_line > 0
    # Where the host put the array is in no message's interest.
    golden(re.sub(r"0x1000[0-9a-f]{8}\b", "0x...", str(fault)) + "\n")


@pytest.mark.parametrize("name", CASES)
def test_clean_twin(name: str) -> None:
    case = CASES[name]
    assert case.clean != case.faulty or case.more
    result = start(case.clean, **case.options)
    assert result.instructions > 0


def test_every_class_is_raised() -> None:
    assert {case.kind for case in CASES.values()} == set(FAULTS) - {"none"}


@pytest.mark.parametrize(("rank", "ok"), [(1, True), (2, False)])
def test_a_tensor_map_of_the_right_rank(rank: int, ok: bool) -> None:
    x = np.zeros(68, np.uint32)
    at = -(x.ctypes.data & 0xFFF) % 64 // 4
    x[at : at + 4] = np.array([MAGIC, 0], np.int64).view(np.uint32)
    row = np.zeros((1, MAP_COLUMNS), np.int64)
    row[0, MAP_ADDRESS] = GLOBAL_BASE + (x.ctypes.data & 0xFFF)
    row[0, [MAP_RANK, MAP_BYTES, MAP_EXTENT, MAP_STRIDE, MAP_STEP, MAP_BOX]] = rank, 4, 8, 4, 1, 4
    row[0, [MAP_EXTENT + 1, MAP_STRIDE + 1, MAP_STEP + 1, MAP_BOX + 1]] = 1, 32, 1, 1
    body = (
        "add.u64 %d1, %d0, 63;\nand.b64 %d1, %d1, 0xFFFFFFFFFFFFFFC0;\nmov.u32 %r1, buf;\n"
        "mov.u32 %r2, 4;\nmov.u32 %r3, bar;\nmbarrier.init.shared::cta.b64 [%r3], 1;"
        " fence.mbarrier_init.release.cluster;\n"
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 16;\n"
        "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes"
        " [%r1], [%d1, {%r2}], [%r3];\n"
        "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r3], 0;\n@!%p3 bra WAIT;\n"
        "ld.shared.u32 %r4, [%r1];\nst.global.u32 [%d0+252], %r4;"
    )
    if ok:
        x[4] = 77 if at > 4 else x[4]
        wanted = int(x[4])
        start(body, threads=1, x=x, maps=row)
        assert x[63] == wanted
    else:
        fault = fault_of(body, threads=1, x=x, maps=row)
        assert fault.message.startswith(
            "missing tensor map: the rank of a tensor map: expected 1, as many as coordinates,"
            " got 2\n"
        )
