"""The words and tools of all rooms: it imports none of them."""
