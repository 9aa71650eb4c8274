"""A device's output over its UART: the frames on the wire, and the outcome of a run that they add up to.

Nothing here depends on the other end: QEMU, an FVP and a serial port deliver the same bytes.
"""
