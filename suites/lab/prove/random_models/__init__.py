"""Random networks of the suites' operators: each is exact on every NPU, or refused by name before anything boots."""
