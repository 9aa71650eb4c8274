"""How we write on a user's terminal: consoles, streams that may break, and progress."""
