"""Bundles: one run as a file that shows it again elsewhere (docs/bundles.md)."""
