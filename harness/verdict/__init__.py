"""The verdict on a run: whether the answer is right, where it begins to be wrong, and what it cost."""
