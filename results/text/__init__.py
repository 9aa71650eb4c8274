"""Results as text for people, on a terminal or in a notebook."""
