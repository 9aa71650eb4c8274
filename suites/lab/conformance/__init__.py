"""Conformance of the functional NPU with tosa_reference_model: programs, networks, and the command that runs them."""
