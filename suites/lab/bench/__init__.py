"""A board on the laboratory's bench: QEMU behind a gdb port and a serial device, which is all that the harness sees."""
