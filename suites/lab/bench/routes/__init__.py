"""The ways to a bench board: its gdb port alone, real pyOCD, real OpenOCD, real ser2net, and how fast each is."""
