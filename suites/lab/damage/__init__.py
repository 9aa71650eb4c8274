"""Damages streams, programs and frames, plays tricks on the loader, and watches what happens."""
