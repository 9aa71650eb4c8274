"""Examine an installation: what ethos-hil needs, what is there, what is missing. Nothing is imported to examine it."""
