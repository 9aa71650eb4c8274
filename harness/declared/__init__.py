"""From what a declaration names to modules and tensors: operator tests and benchmarks build theirs with it.

Its modules import torch, so they are imported late.
"""
