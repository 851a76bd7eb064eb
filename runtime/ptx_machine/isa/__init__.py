"""The instructions: a file for each family, with the forms that PTX has and how they become rows.

What ptxas takes for sm_90a and the machine refuses, and why:

* ``mma`` of s4, u4 and b1, ``wgmma`` of b1; ``cvt.pack`` to s4, u4, s2, u2: types below a byte, which
  the language has not, and which the H200 only emulates (b1, s4) by other instructions.
* ``mma.sp``, ``wgmma...sp``: structured sparsity, which the language has not.
* ``mma.m8n8k4`` of f16: of sm_70, which later devices emulate; ``wmma.*``: the same products with
  fragments whose layout PTX leaves open, so that there is nothing to check it against.
* ``vadd``, ``vmad``, ``vset``, ``vshl``... of whole registers: no compiler makes them. Of bytes and
  halves (``vabsdiff4``) what fits its place can be added up; masks and selectors are refused.
* ``fma.oob``, ``fma.rm.bf16``: not made by any compiler; the manual does not have the second.
* ``tex``, ``tld4``, ``suld``, ``istypep``: textures. ``multimem``: memory of several devices.
* ``alloca``, ``stacksave``, ``stackrestore``: local memory has its size when the program is decoded.
* ``cp.async.bulk.tensor...im2col_no_offs`` from shared memory; ``tensormap.replace`` of interleaved
  layouts, NaN fill and packed elements.
* ``mov.u16`` of a special register of 32 bits, which ptxas cuts off.
* Indirect calls and recursion (calls.py).
"""
