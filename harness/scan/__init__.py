"""A scan: one question, compiled by several versions of a tool, and what changed at which."""
