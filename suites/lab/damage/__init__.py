"""Damages streams, programs and frames, plays tricks on the loader, makes odd models, and watches what happens."""
