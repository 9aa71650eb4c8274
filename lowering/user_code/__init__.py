"""The user's code: how it is run, which line a thing is from, and what it says when it fails."""
