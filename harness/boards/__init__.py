"""Boards: what a board is, where it is described, and how it is loaded and asked."""
