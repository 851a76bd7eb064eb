"""What is a program? Values, types, operations, blocks, locations, printer and verifier.

The lowest layer: it imports nothing of tiledsl but ``tiledsl.errors``.
"""
