"""All ways to damage the PTX, by kind."""

from __future__ import annotations

import re

from tests.ptx_machine.mutants.mutation import Change, Mutation

R, P = r"%r\d+", r"%p\d+"
STAGED = r"cp\.async\.bulk\.tensor\.\dd\.global"  # a TMA store
LOADED = r"cp\.async\.bulk\.tensor\.\dd\.shared"


def plus(step: int, group: int = 2) -> Change:
    """The number in a group of the match, changed by ``step``."""

    def change(match: re.Match[str]) -> str:
        parts = [match[k] for k in range(1, match.re.groups + 1)]
        parts[group - 1] = str(int(parts[group - 1]) + step)
        return "".join(parts)

    return change


def m(name: str, kind: str, pattern: str, change: Change, places: int = 2, *programs: str) -> None:
    MUTATIONS.append(Mutation(name, kind, pattern, change, places, programs))


MUTATIONS: list[Mutation] = []

# A descriptor: start address and "leading" offset in its low word, stride offset and swizzle mode
# (1 at bit 30: 128 bytes) in the high one.
m("K step of a descriptor + 32 bytes", "descriptor", rf"(add\.u32 t, {R}, )(\d+)(;)", plus(2), 3)
m(
    "start address + 16 bytes",
    "descriptor",
    rf"(shr\.u32 \t({R}), {R}, 4;)",
    r"\1 add.s32 \2, \2, 1;",
)
m("start address without its shift", "descriptor", rf"(shr\.u32 \t{R}, {R}, )4;", r"\g<1>3;", 1)
m("stride offset halved", "descriptor", r", 1073741888\}", ", 1073741856}", 2)
m("swizzle mode of 64 bytes", "descriptor", r", 1073741888\}", ", 2147483712}", 2)
m("no swizzle mode", "descriptor", r", 1073741888\}", ", 64}", 1)
m("leading offset of a swizzled K-major tile", "descriptor", rf"(or\.b32 \t{R}, {R}, )65536;",
  r"\g<1>131072;", 1, "gemm")  # fmt: skip
m(
    "shared tile + 16 bytes",
    "descriptor",
    rf"(add\.s32 \t{R}, {R}, )(\d*[1-9]\d{{3,}})(;)",
    plus(16),
    3,
)

m("xor of a column with another constant", "swizzle", rf"(xor\.b32 \t{R}, {R}, )(32|64|96)(;)",
  plus(16), 2)  # fmt: skip
m("or for xor of registers", "swizzle", rf"xor(\.b32 \t{R}, {R}, {R};)", r"or\1", 4)
m("no xor", "swizzle", rf"xor\.b32 \t({R}), ({R}), {R};", r"mov.b32 \1, \2;", 3)
m("mask of the column of a store", "swizzle", rf"(and\.b32 \t{R}, {R}, )112;", r"\g<1>48;", 1)

m("parity 0", "parity", rf"(try_wait\.parity[^;]*\], ){R};", r"\g<1>0;", 2)
m("parity 1", "parity", rf"(try_wait\.parity[^;]*\], ){R};", r"\g<1>1;", 2)
m("parity never flips", "parity", rf"(selp\.b32 \t{R}, )1, 0, ({P};)", r"\g<1>0, 0, \2", 2)
m("slots of a ring + 1", "parity", rf"(setp\.eq\.b32 \t{P}, {R}, )([2-9])(;)", plus(1), 2)
m("slots of a ring - 1", "parity", rf"(setp\.eq\.b32 \t{P}, {R}, )([2-9])(;)", plus(-1), 2)

m("16 bytes fewer expected", "byte count", r"(expect_tx[^;]*, )(\d+)(;)", plus(-16))
m("16 bytes more expected", "byte count", r"(expect_tx[^;]*, )(\d+)(;)", plus(16))
m("no bytes expected", "byte count", r"(mbarrier\.arrive)\.expect_tx([^;]*), \d+;", r"\1\2;")
m("a cp.async of no bytes", "byte count", rf"(cp\.async\.c[ag]\.[^;]*, )({R});", r"\g<1>0;", 3)

m("one arrival more", "arrival count", r"(mbarrier\.init[^;]*, )(\d+)(;)", plus(1), 3)
m("one arrival fewer", "arrival count", r"(mbarrier\.init[^;]*, )([2-9]|\d\d+)(;)", plus(-1), 2)
m("no arrival", "arrival count", rf"(?:@{P} )?mbarrier\.arrive\.shared[^;]*;", "", 3)
m("a second arrival", "arrival count", rf"(@{P} mbarrier\.arrive\.shared[^;]*;)", r"\1 \1", 2)
m("all lanes arrive", "arrival count", rf"@{P} (mbarrier\.arrive\.shared[^;]*;)", r"\1", 2)
m(
    "arrival of copies counted twice",
    "arrival count",
    r"(cp\.async\.mbarrier\.arrive)\.noinc",
    r"\1",
    1,
)
m("no arrival of copies", "arrival count", r"cp\.async\.mbarrier\.arrive[^;]*;", "", 1)

m(
    "two registers of a fragment swapped",
    "fragment",
    rf"(stmatrix[^;]*\{{)({R}), ({R})",
    r"\1\3, \2",
    3,
)
m("outer registers of a fragment swapped", "fragment",
  rf"(stmatrix[^;]*\{{)({R})(, {R}, {R}, )({R})", r"\1\4\3\2", 2)  # fmt: skip
m("halves of a packed register swapped", "fragment",
  rf"(cvt\.rn\.bf16x2\.f32 \t{R}, )({R}), ({R});",
  r"\1\3, \2;", 3)  # fmt: skip
m("accumulators swapped", "fragment", rf"(wgmma\.mma_async[^;{{]*\{{)({R}), ({R})", r"\1\3, \2", 2)
m(
    "operands of a product swapped",
    "fragment",
    r"(wgmma\.mma_async[^;]*\}, )(\w+), (\w+)",
    r"\1\3, \2",
    1,
)
m("A's sign", "fragment", r"(wgmma\.mma_async[^;]*, )1(, 1, 0, 0;)", r"\g<1>-1\2", 1)
m("B as if N were fastest", "fragment", r"(wgmma\.mma_async[^;]*, 1, 1, 0, )0;", r"\g<1>1;", 1)
m("row of a lane", "fragment", rf"(and\.b32 \t{R}, {R}, )15;", r"\g<1>7;", 1)
m("row of a warp", "fragment", rf"(and\.b32 \t{R}, {R}, )48;", r"\g<1>16;", 1)
m("pitch of staged rows", "fragment", rf"(shl\.b32 \t{R}, {R}, )7;", r"\g<1>6;", 2)

m("another named barrier", "named barrier", rf"(bar\.sync ){R}, 128;", r"\g<1>7, 128;", 3)
m("threads of a named barrier - 32", "named barrier", rf"(bar\.sync {R}, )128;", r"\g<1>96;", 2)
m("threads of a named barrier + 128", "named barrier", rf"(bar\.sync {R}, )128;", r"\g<1>256;", 2)
m("no named barrier", "named barrier", rf"bar\.sync {R}, 128;", "", 4)
m("no barrier behind the mbarriers", "named barrier", r"bar\.sync \t?0;", "", 1)

WAIT = r"\{ \.reg \.pred done; (\w+): mbarrier\.try_wait[^}]*\}"
m("no wait", "removed wait", WAIT, "", 5)
m("a wait that asks once", "removed wait", r"bra WAIT\d+;", "", 3)
m("no wait for products", "removed wait", r"wgmma\.wait_group\.sync\.aligned \d;", "", 3)
m("no wait for a buffer", "removed wait", rf"@{P} cp\.async\.bulk\.wait_group\.read 1;", "", 3)

m("no fence before products", "removed fence", r"wgmma\.fence\.sync\.aligned;", "", 2)
m("no fence before a TMA store", "removed fence", r"fence\.proxy\.async[^;]*;", "", 3)
m("no fence behind mbarrier.init", "removed fence", r"fence\.mbarrier_init[^;]*;", "", 1)

m("products not committed", "removed commit", r"wgmma\.commit_group\.sync\.aligned;", "", 2)
m("store not committed", "removed commit", rf"@{P} cp\.async\.bulk\.commit_group;", "", 3)

m("one more group of products pending", "wait count", r"(wgmma\.wait_group\.sync\.aligned )(\d)(;)",
  plus(1), 3)  # fmt: skip
m("one more store pending", "wait count", r"(cp\.async\.bulk\.wait_group\.read )(1)(;)", plus(1), 3)

m("no drain", "removed drain", rf"@{P} cp\.async\.bulk\.wait_group\.read 0;", "", 2)
m("drain of all but one", "removed drain", r"(cp\.async\.bulk\.wait_group\.read )0;", r"\g<1>1;", 2)

CLUSTER = ("cluster",)
m("no first cluster barrier", "cluster barrier", r"barrier\.cluster\.arrive\.relaxed\.aligned;|"
  r"(?<!aligned; )barrier\.cluster\.wait\.aligned;", "", 2,
  *CLUSTER)  # fmt: skip
m("no last cluster barrier", "cluster barrier",
  r"barrier\.cluster\.arrive\.aligned; barrier\.cluster\.wait\.aligned;", "", 2,
  *CLUSTER)  # fmt: skip
m("no last cluster wait", "cluster barrier", r"(arrive\.aligned; )barrier\.cluster\.wait\.aligned;",
  r"\1", 1, *CLUSTER)  # fmt: skip
m("wrong rank", "mapa rank", rf"(mapa\.[^;]*, )({R});", r"\g<1>0;", 2, *CLUSTER)
m("rank of no block", "mapa rank", rf"(mapa\.[^;]*, )({R});", r"\g<1>2;", 2, *CLUSTER)
m(
    "own rank always",
    "mapa rank",
    rf"mapa\.[^;]*?({R}), ({R}), {R};",
    r"mov.b32 \1, \2;",
    2,
    *CLUSTER,
)
m(
    "multicast to one block",
    "multicast mask",
    r"(multicast::cluster [^;]*, )%rs\d+;",
    r"\g<1>1;",
    1,
    *CLUSTER,
)
m("multicast to a block too many", "multicast mask", r"(multicast::cluster [^;]*, )%rs\d+;",
  r"\g<1>7;", 1, *CLUSTER)  # fmt: skip
m("no multicast", "multicast mask", r"\.multicast::cluster( [^;]*), %rs\d+;", r"\1;", 1, *CLUSTER)

m(
    "coordinates of a load swapped",
    "coordinates",
    rf"({LOADED}[^;]*, \{{)({R}), ({R})",
    r"\1\3, \2",
    3,
)
m(
    "coordinates of a store swapped",
    "coordinates",
    rf"({STAGED}[^;]*, \{{)({R}), ({R})",
    r"\1\3, \2",
    3,
)
m("step along K halved", "coordinates", rf"(add\.s32 \t({R}), \2, )64;", r"\g<1>32;", 1)
m("column of a store", "coordinates", rf"(or\.b32 \t{R}, {R}, )64;", r"\g<1>32;", 1)
m("row of a tile", "coordinates", rf"(shl\.b32 \t{R}, {R}, )(7|8)(;)", plus(-1), 3)
m("offsets of im2col swapped", "coordinates", r"\{(%rs\d+), (%rs\d+)\}", r"{\2, \1}", 1, "conv")
m(
    "a coordinate of im2col",
    "coordinates",
    rf"(im2col[^;]*, {R}, )({R})(, {R}\}})",
    r"\g<1>0\3",
    1,
    "conv",
)

m("no registers given back", "setmaxnreg", r"setmaxnreg\.dec[^;]*;", "", 1)
m("more registers than there are", "setmaxnreg", r"(setmaxnreg\.inc[^;]* )\d+;", r"\g<1>256;", 1)
m("dec to more registers", "setmaxnreg", r"(setmaxnreg\.dec[^;]* )\d+;", r"\g<1>248;", 1)

m("another thread elected", "elect", rf"(setp\.eq\.b32 \t{P}, %r\d+, )0;", r"\g<1>1;", 2)
m("all but the elected thread", "elect", rf"(setp\.)eq(\.b32 \t{P}, %r\d+, 0;)", r"\1ne\2", 2)
m("all lanes store", "elect", rf"@{P} ({STAGED})", r"\1", 2)
m("a guard negated", "elect", rf"@({P} (?:cp\.async\.bulk|mbarrier\.arrive))", r"@!\1", 3)

m("no mbarrier.init", "mbarrier.init", r"mbarrier\.init[^;]*;", "", 4)

m("lt for le", "comparison", r"(setp\.)lt(\.[us]32 )", r"\1le\2", 3)
m("ge for gt", "comparison", r"(setp\.)ge(\.s32 )", r"\1gt\2", 2)
m("loop ends one trip early", "comparison", rf"(setp\.ne\.b32 \t{P}, {R}, )0;", r"\g<1>-1;", 3)
m("loop condition negated", "comparison", rf"(setp\.)ne(\.b32 \t{P}, {R}, 0;)", r"\1eq\2", 3)
m("branch on the opposite", "comparison", rf"@({P} bra \t)", r"@!\1", 4)

m("next mbarrier waited for", "address", r"(try_wait[^;]*\[%r\d+)\]", r"\1+8]", 2)
m("next mbarrier arrived at", "address", r"(mbarrier\.arrive[^;]*\[%r\d+)\]", r"\1+8]", 2)
m("staged 16 bytes on", "address", rf"(stmatrix[^;\[]*\[{R})\]", r"\1+16]", 3)
m("staged one byte on", "address", rf"(stmatrix[^;\[]*\[{R})\]", r"\1+1]", 1)
m("loaded 1024 bytes on", "address", rf"({LOADED}[^;\[]*\[{R})\]", r"\1+1024]", 2)
m("loaded 16 bytes on", "address", rf"({LOADED}[^;\[]*\[{R})\]", r"\1+16]", 1)
m("stored from 128 bytes on", "address", rf"({STAGED}[^;]*\], \[{R})\]", r"\1+128]", 2)
m("copied 16 bytes on", "address", rf"(cp\.async\.c[ag]\.[^;\[]*\[{R})\]", r"\1+16]", 2)
m("another parameter", "address", r"(ld\.param\.[^;]*_param_)(\d+)(\];)", plus(-1), 2)

KINDS = sorted({each.kind for each in MUTATIONS})
