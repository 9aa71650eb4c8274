"""From a command stream to operations, every register resolved and checked."""
