"""Runs as Parquet files: what a question over many runs needs, in a hundredth of the space of records."""
