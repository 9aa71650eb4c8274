"""TOSA programs built in milliseconds, for tests and for the laboratory."""
