"""Runs the firmware's fuzzers (firmware/fuzz), from seeds made of real programs, and says what they found."""
