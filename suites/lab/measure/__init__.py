"""Measures what the product costs, how good its numbers are, what its tests see, and what is left when it is killed."""
