"""The CPU meaning of the IR: runs protocol-level IR on NumPy."""
