"""A labgrid farm on this machine, with bench boards, and what the harness does with it."""
