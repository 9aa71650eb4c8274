"""The random programs. A program is determined by its seed."""

from __future__ import annotations

import numpy as np

from ethos_hil.lowering.testing.tosa_graph import Graph, Value
from ethos_hil.lowering.testing.tosa_program import Limits, Rng, TosaProgram
from ethos_hil.suites.lab.prove.conformance.random_graphs import elementwise, layouts, networks, windows
from ethos_hil.suites.lab.prove.conformance.random_graphs.dice import Dice, Form

# Consecutive seeds take these in turn, so that a run of as many seeds has them all.
FORMS: tuple[Form, ...] = (
    windows.convolution,
    elementwise.arithmetic,
    windows.depthwise,
    networks.network,
    windows.pool,
    layouts.transposition,
    windows.transposed_convolution,
    elementwise.rescaling,
    windows.convolution,
    layouts.reduction,
    windows.matrix_product,
    networks.chain,
    windows.resize,
    elementwise.arithmetic,
    windows.convolution_3d,
    layouts.concatenation,
    elementwise.table,
    layouts.part,
    elementwise.rescaling_of_int32,
    layouts.padding,
    elementwise.selection,
    layouts.index_of_maximum,
    elementwise.comparison,
    layouts.repetition,
    elementwise.bitwise,
    layouts.gathering,
    layouts.reversal,
)
# What TOSA defines of RESCALE to int32: with a factor below one the shift is at least 31, and values need a bit less.
LIMITS: dict[Form, tuple[Limits, ...]] = {elementwise.rescaling_of_int32: ((-(2**30) + 1, 2**30 - 1),)}
FLAGS = ((), (), ("--optimise=Size",), *((f"--arena-cache-size={size}",) for size in (8000, 20000, 60000)))


def program(seed: int) -> TosaProgram:
    """Return the random program of a seed: always the same one, and a different one for every seed."""
    form = FORMS[seed % len(FORMS)]

    def build(graph: Graph, rng: Rng) -> Value:
        return form(Dice(rng), graph)

    flags = Dice(np.random.default_rng(seed)).pick(*FLAGS)
    return TosaProgram(f"seed {seed}, {form.__name__.replace('_', ' ')}", build, LIMITS.get(form, ()), flags=flags)


def seed_of(name: str) -> int:
    """Return the seed of a program from its name."""
    return int(name.removeprefix("seed ").partition(",")[0])


def named(name: str) -> TosaProgram:
    """Return the program of a name."""
    return program(seed_of(name))
