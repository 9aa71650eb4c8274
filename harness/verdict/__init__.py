"""The verdict on a run: whether the answer is right, where it starts to be wrong, and what it cost."""
