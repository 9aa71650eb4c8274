"""Simulated debug probes: a CoreSight DAP in front of a bench board, for real pyOCD and real OpenOCD."""
