"""GDB's remote protocol: how debug probes' servers and QEMU are asked for memory and registers."""
