"""Benchmarks: a grid of cases, compiled for every NPU and memory mode, timed, and verified where they boot."""
