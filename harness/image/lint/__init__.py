"""Static checks of a program's ELF for a system on chip: would it boot there? `lint` has them all.

A virtual board, or an FVP, forgives what a part does not: memory that is larger, that starts filled with zeros, or that
can be written although it is a boot memory. These checks need no board. The sources of each fact are named where it is
checked; the memories come from harness/socs.
"""
