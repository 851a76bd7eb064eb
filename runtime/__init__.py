"""How does a compiled kernel run? Imported as `tiledsl.runtime`."""
