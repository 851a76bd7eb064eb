"""The operations of the IR, one module per family: arith, control, tile, protocol."""

from tiledsl.codegen.ir.ops import arith, control, protocol, tile

__all__ = ["arith", "control", "protocol", "tile"]
