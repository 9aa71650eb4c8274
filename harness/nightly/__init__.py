"""The nightly: a plan in a TOML file, run whole or in shards, resumed where it was interrupted, and judged."""
