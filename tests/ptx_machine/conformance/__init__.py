"""What the PTX machine must agree on with a GPU: probes, their recording, their replay.

values.py     operands: seeded, the same everywhere
probe.py      one probe: a small kernel around the instructions under test
integers.py, floats.py, conversions.py, lanes.py, atomics.py, matrices.py, wgmma.py,
barriers.py, copies.py      the probes; catalogue.py: all of them
record.py     runs them on the GPU: ``python -m tests.ptx_machine.conformance.record --out DIR``
replay.py     runs them on the machine
data/         what the H200 gave
"""
