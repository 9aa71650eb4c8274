"""What the harness itself costs, measured on this machine."""
