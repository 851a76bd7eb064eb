"""The pipeline family on the GPU: the cases of ``tests/kernels/family``, and larger shapes.

tests/numeric/test_family_emulator.py runs the same cases in the emulator.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.gpu.children import Children
from tests.gpu.launch_ptx import framework
from tests.kernels.family import FAMILY

LIMIT = 120  # seconds for all of them together


@pytest.fixture(scope="module")
def running() -> Iterator[Children]:
    framework("torch")
    made = Children("tests.gpu.run_family", FAMILY, LIMIT)
    yield made
    made.end()


@pytest.mark.gpu
@pytest.mark.parametrize("subject", FAMILY)
def test_subject(running: Children, subject: str) -> None:
    status, text = running.output(subject)
    print(text)
    assert status is not None, f"{subject} hangs in the last of these cases:\n{text}"
    assert status == 0, text
