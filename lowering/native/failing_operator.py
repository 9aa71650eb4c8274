"""The operator of a TOSA program on which a tool fails, found by trying its prefixes."""

from __future__ import annotations

import time
from collections.abc import Callable

from ethos_hil.lowering.formats.tosa import TosaGraph, TosaOperator
from ethos_hil.lowering.formats.tosa_draft import TosaDraft
from ethos_hil.lowering.native.worker import NativeCrash, ToolRaised

PART_SECONDS = 20
"""CPU time for one prefix; the search itself ends after SEARCH_SECONDS."""
SEARCH_SECONDS = 60.0


def failing_operator(tosa: bytes, fails: Callable[[bytes], bool]) -> TosaOperator | None:
    """Return the last operator of the shortest prefix of a program on which a tool fails.

    A failure is taken to stay when operators are added, so the search halves. It gives up, and returns None, if no
    prefix fails, after SEARCH_SECONDS, or if the program cannot be read.

    Args:
        tosa: the program, on which the tool fails.
        fails: whether it fails on a program.
    """
    started = time.monotonic()
    try:
        operators = TosaGraph.parse(tosa).operators
        # A prefix ends in an operator that computes: with a constant at its end, it would have no output.
        ends = [operator.index + 1 for operator in operators if not operator.is_constant]
        # The last prefix is tried, too: a crash may have come by chance, or there are no operators.
        if not ends or not fails(prefix(tosa, ends[-1])):
            return None
        good, bad = -1, len(ends) - 1
        while bad - good > 1:
            if time.monotonic() - started > SEARCH_SECONDS:
                return None
            middle = (good + bad) // 2
            if fails(prefix(tosa, ends[middle])):
                bad = middle
            else:
                good = middle
        return operators[ends[bad] - 1]
    except Exception:  # a damaged program has no operator to name; the failure is what is reported
        return None


def crashing_operator(tosa: bytes, call: Callable[[bytes], object]) -> TosaOperator | None:
    """Return the operator with which a tool ends its process.

    Args:
        tosa: the program, which crashes the tool.
        call: calls the tool with a program; NativeCrash, if that crashes it.
    """

    def crashes(part: bytes) -> bool:
        try:
            call(part)
        except NativeCrash:
            return True
        except ToolRaised:
            return False
        return False

    return failing_operator(tosa, crashes)


def prefix(tosa: bytes, count: int) -> bytes:
    """Return the program of the first `count` operators. What none of them reads is its outputs.

    The inputs stay; tosa_reference_model refuses other tensors and shapes that no operator has.
    """
    draft = TosaDraft(tosa)
    block = draft.blocks[0]
    last = {*block.outputs}
    for operator in block.operators[count:]:
        block.remove(operator)
    read = {name for operator in block.operators for name in operator.inputs}
    constant = {name for operator in block.operators if operator.is_constant for name in operator.outputs}
    outputs = [name for operator in block.operators for name in operator.outputs]
    block.replace_outputs([name for name in outputs if name in last or name not in {*read, *constant}])
    return draft.finish()
