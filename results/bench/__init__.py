"""What the points of a benchmark say: derived figures, tables, and the answer to a budget."""
