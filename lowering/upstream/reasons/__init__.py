"""Why an operator is on the CPU, and what would help."""
