"""Compressed weights and scales: their codings, and the orders in which the NPUs read them."""
