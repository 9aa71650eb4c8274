"""Whether an answer is right, where it begins to be wrong, and what it cost."""
