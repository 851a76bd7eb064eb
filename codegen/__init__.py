"""From tile IR to PTX and cubin. Imported as `tiledsl.codegen`."""
