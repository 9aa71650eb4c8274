"""The conformance run: programs on the functional NPU, compared with tosa_reference_model."""
