"""The special registers of PTX, and how wide they are."""

from __future__ import annotations

__all__ = ["CLOCKS", "SPECIAL"]

_VECTORS = ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid",
            "cluster_nctaid")  # fmt: skip

SPECIAL: dict[str, int] = {
    **{f"%{name}.{axis}": 32 for name in _VECTORS for axis in "xyzw"},
    **dict.fromkeys(
        [
            "%laneid",
            "%warpid",
            "%nwarpid",
            "%smid",
            "%nsmid",
            "%cluster_ctarank",
            "%cluster_nctarank",
            "%lanemask_eq",
            "%lanemask_le",
            "%lanemask_lt",
            "%lanemask_ge",
            "%lanemask_gt",
            "%clock",
            "%clock_hi",
            "%globaltimer_lo",
            "%globaltimer_hi",
            "%total_smem_size",
            "%aggr_smem_size",
            "%dynamic_smem_size",
            "%reserved_smem_offset_begin",
            "%reserved_smem_offset_end",
            "%reserved_smem_offset_cap",
            "%reserved_smem_offset_0",
            "%reserved_smem_offset_1",
        ],
        32,
    ),
    **{f"%envreg{k}": 32 for k in range(32)},
    **{f"%pm{k}": 32 for k in range(8)},
    **{f"%pm{k}_64": 64 for k in range(8)},
    **dict.fromkeys(["%gridid", "%clock64", "%globaltimer", "%current_graph_exec"], 64),
    "%is_explicit_cluster": 1,
}
"""Width in bits, by name; 1: a predicate."""

CLOCKS = ("%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi")
"""Those that change while a kernel runs: a row CLOCK reads them (isa/control_ops.py)."""
