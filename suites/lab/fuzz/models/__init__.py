"""Odd models: empty, huge, broken or extreme in one way each, lowered and computed by the reference model."""
