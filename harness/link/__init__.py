"""What a device says over its UART: frames off the wire, and the outcome of a run put together from them.

Nothing here knows what is at the other end: QEMU, an FVP and a serial port all deliver the same bytes.
"""
