"""A Python DSL for warp-specialised GPU kernels."""

from tiledsl._version import __version__

__all__ = ["__version__"]
