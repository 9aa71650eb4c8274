"""The report of a run: one HTML file that needs nothing else, and that loads nothing."""
