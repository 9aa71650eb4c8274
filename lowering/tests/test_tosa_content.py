"""The digest of what a TOSA program computes: blind to names, sharp for everything else."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.lowering.formats.tosa import content_digest
from ethos_hil.lowering.testing.tosa_graph import Graph


def program(
    scale: float = 0.5, operator: str = "MUL", size: int = 4, shift: int = 0, *, swapped: bool = False
) -> bytes:
    graph = Graph()
    a, b = (graph.rescale(graph.input((1, size)), factor, dtype="int32") for factor in (1.0, 2.0))
    product = graph.binary(operator, *((b, a) if swapped else (a, b)))
    return graph.output(graph.table(graph.rescale(product, scale), np.arange(-128, 128) + shift)).serialize()


OTHERS: dict[str, Callable[[], bytes]] = {
    "an attribute or a constant": lambda: program(scale=0.25),
    "one element of a constant": lambda: program(shift=-1),
    "an operator": lambda: program(operator="ADD"),
    "a shape": lambda: program(size=8),
    "an order of operands": lambda: program(swapped=True),
}


@pytest.mark.parametrize("what", OTHERS)
def test_another_program_has_another_digest(what: str) -> None:
    assert content_digest(OTHERS[what]()) != content_digest(program())


def test_names_do_not_count() -> None:
    tosa = program()
    named = tosa.replace(b"main", b"mine")
    assert named != tosa
    assert content_digest(named) == content_digest(tosa)


def test_a_damaged_program_is_an_error() -> None:
    tosa = bytearray(program())
    tosa[4:64] = bytes(60)
    with pytest.raises(UsageError, match="a TOSA program is damaged"):
        content_digest(b"\xff\xff\xff\x7f" + bytes(tosa[4:]))
