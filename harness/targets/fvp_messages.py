"""What an FVP says when it does not run. Its words tell the reasons apart, its exit status does not.

Sources of the words:

- glibc's dynamic linker.
- Licences: FlexNet, which licenses Arm's tools, as public bug reports of tools that use it quote it ("License path:",
  "FlexNet Licensing error:-5,357"); Arm Compiler's messages, likewise ("Failed to check out a license", "The license
  file could not be found"); gem5's notes on Fast Models ("license error: License checkout for feature FM_Simulator
  with version 11.15 has been denied by Flex back-end"). No FVP without its licence was at hand.
- The end at a limit, "Info: Simulation is stopping. Reason: ... has been exceeded.", with "CPU time" after --timelimit
  (ExecuTorch's backends/arm/scripts/run_fvp.sh and documents), "Simulated time" after --simlimit (logs of the
  Corstone-300 in Zephyr's and Arm's documents) and "Cycle limit" after --cyclelimit (ARM-software/AVH and MDK-Packs).
  No public log shows a wall clock's; any reason with "time" or "limit" in it counts.
- A value that a parameter cannot have: "parameter error: value is out of range", or "FATAL ERROR: The number of MACs
  parameter value ... is not valid!" (Kwon-GiHwan/mps4_prototyping_board, docs/paper/platform_sensitivity/
  FVP_PARAMETER_AUTHORITY.md). An FVP that ends before its first frame is quoted, so these need no words of ours.
- What says nothing about a failure: "telnetterminal0: Listening for serial connection on port 5000", with "Info:" and
  the FVP's name before it in later releases (Arm's csolution examples); the NPU's three lines "Ethos-U rev ... ---
  ..."; "WARNING: ISAR5.PACBTI parameter is deprecated, ..." (FreeRTOS partner demos); "Warning: Failed to write bytes
  at address range ..." (audiomark); "Xt error: Can't open display" of terminals. They are lines like others.

Fast Models collect usage data (rust-embedded/cortex-m, issue 358); no public log shows a line about that.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence

from ethos_hil.base.errors import TargetNotAvailable
from ethos_hil.base.verdict import FailureKind

CONSOLE_LINES = 5
"""Lines of a console that a message quotes."""
_TIME_LIMIT = re.compile(r"simulation is stopping\.\s+reason:.*\b(?:time|limit)\b.*\bexceeded", re.IGNORECASE)
_LIBRARY = re.compile(r"error while loading shared libraries: ([^:]+):")
_LICENCE = re.compile(
    "|".join(
        (
            r"flex(?:net|lm) licensing (?:checkout )?error",
            r"license path:",
            r"licen[sc]e error:",
            r"denied by flex back-end",
            r"failed to check ?out (?:a |the )?licen[sc]e",
            r"licen[sc]e check ?(?:out )?failed",
            r"(?:no valid|invalid|expired) licen[sc]e",
            r"no licen[sc]e (?:was )?found",
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
    """Return whether the FVP ended at a limit of its own."""
    return any(_TIME_LIMIT.search(line) for line in lines)


def ending(status: int) -> str:
    """Return how a process ended, in words; `status` is negative for a signal."""
    if status >= 0:
        return f"exited with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"


def quoted(lines: Sequence[str]) -> str:
    """Return the last lines in one, for a message."""
    return " | ".join(lines[-CONSOLE_LINES:]) or "nothing"


def last_words(lines: Sequence[str]) -> str:
    """Return the last lines that are not empty, for a hint."""
    said = [line for line in lines if line.strip()]
    return f"the console's last lines: {quoted(said)}" if said else "the console is empty"
