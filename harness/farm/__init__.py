"""Boards of a farm: labgrid says where a place is, and lends it to one user at a time."""
