"""How does each op become LLVM IR and PTX?

One file per family of operations registers a lowering for each of them (``registry.lower``);
``entry`` lays out the kernel around them; ``machine`` turns LLVM text into PTX. ``lower`` has the
two functions that others call; ``targets`` is the one table of what an architecture has.
"""
