"""The way from a command stream to operations, with every register resolved and checked."""
