"""Line information and printing: from PTX back to Python lines, and out to the user."""

from __future__ import annotations

import re

from tests.codegen.ir_samples import Sketch, gemm, lowered
from tiledsl.codegen.assemble import assemble
from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.ops import arith, tile
from tiledsl.codegen.nvptx.lower import emit_llvm, emit_ptx
from tiledsl.codegen.ptx_lines import line_table
from tiledsl.errors import Loc


def test_each_operation_keeps_its_line() -> None:
    kernel = lowered(gemm())
    _, ptx = emit_ptx(emit_llvm(kernel), "sm_90a")
    table = line_table(ptx)
    expected = {
        "cp.async.bulk.tensor.2d.shared": {o.loc.line for o in _walk(kernel, tile.TmaLoad)},
        "wgmma.mma_async": {o.loc.line for o in _walk(kernel, None, "wgmma.mma")},
    }
    for what, lines in expected.items():
        found = {
            table.lookup(number).line  # type: ignore[union-attr]
            for number, text in enumerate(ptx.splitlines(), 1)
            if what in text
        }
        assert found == lines, what
    assert ", debug" not in ptx


def _walk(kernel, kind, opcode=""):  # type: ignore[no-untyped-def]
    for op in kernel.body.walk():
        if (kind is not None and isinstance(op, kind)) or op.opcode == opcode:
            yield op


def test_inlined_functions_keep_their_own_lines() -> None:
    """LLVM 22 does not print where they were called from, though it is told."""
    s = Sketch("outer")
    x = s.tensor("x", dtypes.int32, 1)
    zero = s.const(0)
    call = Loc("/home/user/sketch.py", 40, 8, function="outer")
    inner_call = Loc("/home/user/lib.py", 7, 4, function="helper", call_site=call)
    inside = Loc("/home/user/other.py", 99, 12, function="leaf", call_site=inner_call)
    value = s.value(tile.TensorLoad(x, (zero,)))
    doubled = s.value(arith.Binary("add", value, value))
    store = s.add(tile.TensorStore(doubled, x, (zero,)))
    store.at(inside)
    llvm, ptx = emit_ptx(emit_llvm(lowered(s.kernel(warps=1))), "sm_90a")
    line = next(n for n, text in enumerate(ptx.splitlines(), 1) if "st.global" in text)
    found = line_table(ptx).lookup(line)
    assert found is not None
    assert (found.file, found.line, found.col) == ("/home/user/other.py", 99, 12)
    assert llvm.count("inlinedAt: ") == 2
    assert assemble(ptx, "sm_90a", "outer").cubin


def test_code_of_another_file_without_a_call() -> None:
    s = Sketch("mixed")
    x = s.tensor("x", dtypes.int32, 1)
    s.add(tile.TensorStore(s.const(5), x, (s.const(0),))).at(Loc("/tmp/generated.py", 3, 2))
    _, ptx = emit_ptx(emit_llvm(lowered(s.kernel(warps=1))), "sm_90a")
    line = next(n for n, text in enumerate(ptx.splitlines(), 1) if "st.global" in text)
    found = line_table(ptx).lookup(line)
    assert found is not None and (found.file, found.line) == ("/tmp/generated.py", 3)


def test_awkward_paths() -> None:
    s = Sketch("path")
    x = s.tensor("x", dtypes.int32, 1)
    odd = 'C:\\Users\\Jörg "x"\\k.py'
    s.add(tile.TensorStore(s.const(5), x, (s.const(0),))).at(Loc(odd, 3, 2))
    _, ptx = emit_ptx(emit_llvm(lowered(s.kernel(warps=1))), "sm_90a")
    assert assemble(ptx, "sm_90a", "path").cubin


def test_print_goes_through_vprintf() -> None:
    s = Sketch("talk")
    values = [s.scalar(f"v{d.name}", d) for d in dtypes.ALL_DTYPES]
    s.add(tile.Print('a %d é %% "quoted" \\ ' + "%g " * (len(values) - 1), tuple(values)))
    s.add(tile.Print("nothing", ()))
    kernel = lowered(s.kernel(warps=1))
    text = emit_llvm(kernel)
    _, ptx = emit_ptx(text, "sm_90a")
    assert re.findall(r"\.extern \.func.*?(\w+)\s*$", ptx, re.MULTILINE)
    assert ptx.count("vprintf,") == 2 or ptx.count("call.uni") == 2
    assert assemble(ptx, "sm_90a", "talk").cubin
