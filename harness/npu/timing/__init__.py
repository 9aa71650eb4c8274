"""How long operations take: the timing model, and the order in which hardware may run them."""
