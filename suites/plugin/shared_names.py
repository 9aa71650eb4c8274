"""Names that the parts of the plugin, and the processes of pytest-xdist, share."""

from __future__ import annotations

TALLY = "ethos-hil-tally"
"""Name of the plugin that counts verdicts."""
RUN = "ethos_hil_run"
"""Key of the run folder's name in the input of xdist's workers."""
RECORDED = "ethos_hil_recorded"
"""Key of the tests that a resumed session does not run, in the input of xdist's workers."""
CONTROLLER = "ethos_hil_controller"
"""Key of the controller's process id there."""
CRASHED = "???"
"""The phase of the report that xdist's controller makes of a test whose worker died (3.8, dsession.py)."""
