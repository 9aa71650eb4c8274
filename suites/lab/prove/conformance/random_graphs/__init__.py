"""Random TOSA graphs for the conformance run. Each depends on its seed alone."""
