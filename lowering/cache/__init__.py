"""Artifacts that are kept: by which key, in which folder, up to which size."""
