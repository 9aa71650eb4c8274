"""TOSA graphs compiled and run on the functional NPU, for tests and for the laboratory."""
