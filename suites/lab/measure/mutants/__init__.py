"""Mutants of our own code: one small change of meaning each, and whether the nearest fast tests notice it.

Not a library: mutmut (3.8.1) skips decorated functions and what is outside of functions, draws no sample, and its
trampolines make tests fail that look at functions; cosmic-ray (8.7.0) starts a process of pytest for every mutant.
"""
