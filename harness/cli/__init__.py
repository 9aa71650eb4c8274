"""The command line: it reads arguments and shows results."""
