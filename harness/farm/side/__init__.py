"""What runs with labgrid's Python, in its environment: it imports labgrid, the standard library, and itself."""
