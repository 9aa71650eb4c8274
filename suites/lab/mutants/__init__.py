"""Damaged programs through the real firmware on the virtual board.

Whatever a .pte holds, a boot with it must end by itself in results or in a refusal that the firmware names. A CPU
exception, silence, a broken conversation or a hang is a finding. A mutant is a function of the seed, its number and the
programs alone.
"""
