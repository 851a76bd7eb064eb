"""Kernels and oracles that several tests share."""
