"""One declared test: built, lowered, run or verified on the host, judged and recorded."""
