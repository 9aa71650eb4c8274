"""What is asked: the request, what a user may leave out of it, and its model, lowered."""
