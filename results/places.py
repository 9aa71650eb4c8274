"""Where results are kept, and what their files are called."""

MANIFEST = "manifest.json"
"""The file of a run folder that says which run it is."""
LISTED = "`ethos-hil runs` lists what run folders have, `ethos-hil history` runs"
"""What to do about a run that is not there."""
DEFAULT_ROOT = "results/runs"
DEFAULT_HISTORY = "results/history"
