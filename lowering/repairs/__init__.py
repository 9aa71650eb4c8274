"""What is changed of what upstream compiles, and what is refused of it."""
