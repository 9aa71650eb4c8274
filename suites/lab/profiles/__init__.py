"""Profiles by prefixes against what the model of time gives each operation, on many networks."""
