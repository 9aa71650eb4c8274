"""Seeded scenarios of what may befall a board, its line, its probe and its users."""
