"""Small PTX kernels for the tests of the assembler and of the disassembly."""

from __future__ import annotations

HEADER = ".version 8.6\n.target sm_90a\n.address_size 64\n"
FILES = '.file 1 "/home/u/gemm.py"\n.file 2 "/home/u/helpers.py"\n'

LOOP = (
    HEADER
    + """
.visible .entry scale(.param .u64 p, .param .u32 n)
.maxntid 128, 1, 1
{
  .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<5>;
  .shared .align 16 .b8 buffer[1024];
  .loc 1 10 1
  ld.param.u64 %rd1, [p];
  ld.param.u32 %r1, [n];
  .loc 1 11 5
  mov.u32 %r2, 0;
again: .pragma "nounroll";
  .loc 1 12 5
  mul.wide.u32 %rd2, %r2, 4;
  .loc 2 3 9, function_name $L_name, inlined_at 1 12 5
  add.s64 %rd3, %rd1, %rd2;
  ld.volatile.global.f32 %f1, [%rd3];
  add.f32 %f2, %f1, %f1;
  st.volatile.global.f32 [%rd3], %f2;
  .loc 1 13 5
  bar.sync 0;
  .loc 1 14 5
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p1, %r2, %r1;
  .loc 1 0 0
  @%p1 bra again;
  ret;
}
.section .debug_str
{
$L_name:
.b8 104
.b8 0
}
"""
    + FILES
)
"""A loop with a barrier in it, 1024 bytes of shared memory, and one line of an inlined helper."""


def with_setmaxnreg(entry_registers: str) -> str:
    """Two warpgroups that move registers; `entry_registers` is a directive such as .maxnreg."""
    return f"""{HEADER}
.visible .entry roles(.param .u64 p)
.maxntid 256, 1, 1
{entry_registers}
{{
  .reg .pred %p<2>; .reg .b32 %r<9>; .reg .b64 %rd<3>;
  .loc 1 20 1
  ld.param.u64 %rd1, [p];
  mov.u32 %r1, %tid.x;
  setp.lt.u32 %p1, %r1, 128;
  @%p1 bra load;
  .loc 1 31 5
  setmaxnreg.inc.sync.aligned.u32 232;
  st.global.u32 [%rd1], %r1;
  ret;
load:
  .loc 1 22 5
  setmaxnreg.dec.sync.aligned.u32 24;
  ret;
}}
{FILES}"""


def spilling() -> str:
    """40 values alive at once in 24 registers."""
    loads = "".join(f"  ld.volatile.global.u32 %r{i}, [%rd1+{4 * i}];\n" for i in range(40))
    stores = "".join(f"  st.volatile.global.u32 [%rd1+{4 * (40 - i)}], %r{i};\n" for i in range(40))
    return f"""{HEADER}
.visible .entry spill(.param .u64 p)
.maxntid 128
.maxnreg 24
{{
  .reg .b32 %r<40>; .reg .b64 %rd<2>;
  .loc 1 40 1
  ld.param.u64 %rd1, [p];
{loads}{stores}  ret;
}}
{FILES}"""


MMA = (
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
    "{%f1, %f2, %f3, %f4}, %rd2, %rd3, 1, 1, 1, 0, 0;"
)


def wgmma(body: str) -> str:
    """A loop over `body` with four accumulators, then wait for and store them."""
    return f"""{HEADER}
.visible .entry gemm(.param .u64 p, .param .u32 n)
.maxntid 128, 1, 1
.minnctapersm 1
{{
  .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<5>;
  .shared .align 1024 .b8 buffer[4096];
  .loc 1 50 1
  ld.param.u64 %rd1, [p];
  ld.param.u32 %r1, [n];
  mov.u64 %rd2, 0x4000004000010000;
  mov.u64 %rd3, 0x4000004000010080;
  mov.u32 %r2, 0;
  mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;
again: .pragma "nounroll";
  .loc 1 52 9
  wgmma.fence.sync.aligned;
{body}
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 1;
  .loc 1 54 9
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p1, %r2, %r1;
  @%p1 bra again;
  wgmma.wait_group.sync.aligned 0;
  .loc 1 55 5
  st.global.v4.f32 [%rd1], {{%f1, %f2, %f3, %f4}};
  ret;
}}
{FILES}"""


PIPELINED = wgmma(f"  {MMA}\n  {MMA}")
"""Two matrix instructions in flight per turn: nothing to warn of."""

SERIALIZED = wgmma(f"  {MMA}\n  .loc 1 53 9\n  add.f32 %f1, %f1, 0f3F800000;\n  {MMA}")
"""An accumulator touched between two of them: ptxas serialises."""

CALLS_UNKNOWN = f"""{HEADER}
.extern .func (.param .b32 o) unknown(.param .b32 a);
.visible .entry caller(.param .u64 p)
{{
  .reg .b32 %r<3>; .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [p];
  ld.global.u32 %r1, [%rd1];
  {{
    .param .b32 a; .param .b32 o;
    st.param.b32 [a], %r1;
    call (o), unknown, (a);
    ld.param.b32 %r2, [o];
  }}
  st.global.u32 [%rd1], %r2;
  ret;
}}
"""
