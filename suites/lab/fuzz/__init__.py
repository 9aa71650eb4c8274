"""Fuzzers: of command streams and of the firmware."""
