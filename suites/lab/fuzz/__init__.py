"""Fuzzers: of command streams, of models, of the firmware, and of the client of GDB servers."""
