"""The firmware's fuzzers (firmware/fuzz), started from seeds that are real programs."""
