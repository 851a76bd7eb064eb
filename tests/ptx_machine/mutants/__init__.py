"""Deliberate damage to emitted PTX: what can be damaged, on which programs, and who notices."""
