"""Operations of the warp family."""

from __future__ import annotations

SHFL, VOTE, MATCH, REDUX, ELECT, ACTIVEMASK, SYNC = range(7)

SHFL_MODES = ("idx", "up", "down", "bfly")
VOTES = ("all", "any", "uni", "ballot")
MATCHES = ("any", "all")
REDUCTIONS = ("add", "min", "max", "and", "or", "xor")
