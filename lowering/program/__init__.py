"""What is known of a program that is lowered, whoever lowered it."""
