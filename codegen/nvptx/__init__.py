"""How does each op become LLVM IR and PTX?"""
