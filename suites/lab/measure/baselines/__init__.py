"""The published baselines: known networks on every Ethos-U, in every memory mode (docs/baselines.md)."""
