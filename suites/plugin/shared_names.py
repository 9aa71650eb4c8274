"""Names by which the parts of the plugin, and the processes of pytest-xdist, know one another."""

from __future__ import annotations

TALLY = "ethos-hil-tally"
"""The plugin that counts verdicts."""
RUN = "ethos_hil_run"
"""Key under which workers of xdist are told the name of the run folder."""
CRASHED = "???"
"""The phase of the report that xdist's controller makes of a test whose worker died (3.8, dsession.py)."""
