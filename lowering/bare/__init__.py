"""Lowering with what any version of ExecuTorch has."""
