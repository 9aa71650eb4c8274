"""What an FVP says when it does not run. Its words tell the reasons apart, its exit status does not.

Sources of the words: glibc's dynamic linker; FlexNet, which licenses Arm's tools, as public bug reports of tools that
use it quote it ("License path:", "FlexNet Licensing error:-5,357"); Arm Compiler's licence messages, likewise ("Failed
to check out a license", "The license file could not be found"); the end at --timelimit from ExecuTorch's
backends/arm/scripts/run_fvp.sh. No FVP without its licence was at hand.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ethos_hil.harness.errors import TargetNotAvailable
from ethos_hil.results.verdict import FailureKind

_TIME_LIMIT = re.compile(r"Simulation is stopping\. Reason: (?:CPU|Simulated) time has been exceeded")
_LIBRARY = re.compile(r"error while loading shared libraries: ([^:]+):")
_LICENCE = re.compile(
    "|".join(
        (
            r"flex(?:net|lm) licensing (?:checkout )?error",
            r"license path:",
            r"failed to check ?out (?:a |the )?licen[sc]e",
            r"licen[sc]e check ?(?:out )?failed",
            r"(?:no valid|invalid|expired) licen[sc]e",
            r"licen[sc]e (?:has )?expired",
            r"licen[sc]e file could not be found",
            r"cannot connect to license server",
            r"does not enable these tools",
        )
    ),
    re.IGNORECASE,
)


def complaint(lines: Sequence[str]) -> TargetNotAvailable | None:
    """Return why the FVP did not start, or None where its lines do not say.

    The error names the missing library (kind "not-launched") or quotes the licence message (kind "licence").
    """
    for line in lines:
        library = _LIBRARY.search(line)
        if library is not None:
            return TargetNotAvailable(
                f"the FVP lacks the shared library {library[1].strip()}",
                hint="set LD_LIBRARY_PATH to the folders python/lib and fmtplib of its installation, and PYTHONHOME to "
                "its folder python",
            )
    for line in lines:
        if _LICENCE.search(line):
            return TargetNotAvailable(
                f"the FVP has no licence: {line.strip()}",
                kind=FailureKind.LICENCE,
                hint="set ARMLMD_LICENSE_FILE to your licence, or use Arm's FVPs that need none, or --target virtual",
            )
    return None


def reached_time_limit(lines: Sequence[str]) -> bool:
    """Return whether the FVP ended at its --timelimit."""
    return any(_TIME_LIMIT.search(line) for line in lines)
