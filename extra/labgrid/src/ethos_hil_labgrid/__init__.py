"""Boards of a labgrid farm as targets of ethos-hil: labgrid says where a place is, and lends it to one user."""
