"""The text that a model writes, one character in each execution or several."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ethos_hil.base.errors import UsageError
from ethos_hil.harness.link.outcome import Outcome
from ethos_hil.lowering.artifact import Artifact

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def check_text(artifact: Artifact, output: str) -> None:
    """Check that a program has the output whose values are characters.

    Args:
        artifact: the program.
        output: the output's name, or "" where the model writes no text.

    Raises:
        UsageError: it has no such output, or its values are no integers.
    """
    if not output:
        return
    types = dict(zip(artifact.outputs, (tensor.dtype for tensor in artifact.plan.output_tensors), strict=True))
    if output not in types:
        raise UsageError(
            f"{artifact.model} says that its text is the output {output!r}, and has no such output",
            hint=f"it has: {', '.join(types)}",
        )
    if types[output].kind not in "iu":
        raise UsageError(
            f"{artifact.model} says that its text is the output {output!r}, which is {types[output]}",
            hint="give the numbers of Unicode characters as integers",
        )


def written_text(outcome: Outcome, names: Sequence[str], output: str) -> str:
    """Return the characters that a target sent, those of all executions in order.

    Args:
        outcome: the target's outcome.
        names: the names of the program's outputs.
        output: the name of the one with the characters, by their numbers in Unicode; "" if there is none. A number
            that is no character's becomes U+FFFD.
    """
    if output not in names:
        return ""
    at = list(names).index(output)
    return "".join(_character(number) for run in outcome.runs for number in np.ravel(run.outputs[at]).tolist())


def _character(number: int) -> str:
    valid = 0 <= number <= 0x10FFFF and not 0xD800 <= number <= 0xDFFF
    return chr(number) if valid else _REPLACEMENT
