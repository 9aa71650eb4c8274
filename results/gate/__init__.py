"""The comparison of runs, and the gate that passes or fails it."""
