"""Seeded scenarios of what may happen to a board, its line, its probe and its users."""
