"""Upstream's own Arm backend tests, unchanged, on our virtual boards behind the FVP's command line."""
