"""Conformance by chance: random TOSA graphs, each determined by its seed alone, compared like the written programs."""
