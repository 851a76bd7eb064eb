"""A PTX machine on the CPU: runs the emitted PTX exactly, without a GPU.

It shares no code with the lowering, so that a wrong address, descriptor, fragment, swizzle or phase
in what we emit gives a wrong result or a report here, as it would on the GPU.

    parser.py       PTX text -> syntax.py; with lexer, lines, variables, operands, body
    program.py      syntax -> rows of integers: calls.py inlines, encoder.py makes the rows by the
                    tables in isa/ (forms.py reads their notation), flow.py finds where lanes meet
    core/           the interpreter, compiled by Numba: rows, registers, memory, barriers, copies
    machine.py      memory and launches;  report.py: what went wrong, in the user's lines
"""
