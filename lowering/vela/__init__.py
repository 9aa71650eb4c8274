"""Vela: its call, its options, its configuration files, its memory modes."""
