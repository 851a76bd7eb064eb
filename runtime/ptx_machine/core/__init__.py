"""The interpreter. Every function here is compiled by Numba, once, with an explicit signature."""
