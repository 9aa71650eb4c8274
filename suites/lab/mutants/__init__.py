"""Damaged programs through the real firmware on the virtual board.

A boot with any .pte must end by itself, in results or in a refusal that the firmware names. A CPU exception, silence, a
broken conversation or a hang is a finding. A mutant depends on the seed, its number and the programs alone.
"""
