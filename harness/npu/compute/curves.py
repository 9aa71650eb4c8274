"""The activation functions tanh and sigmoid, from values of 18 bits and more to int16.

A value of 12288 is 1.0. Both functions interpolate one table of tanh: 512 words of base and rise, from -5.33 to 5.33.
For sigmoid(x), which is (tanh(x / 2) + 1) / 2, a step of the table is twice as wide. Values beyond the table count as
its ends. Ties are rounded up for values from 0 on, and down below 0.

Ethos-U85 has the table in its look-up memory, where the stream puts it; Ethos-U55 and U65 have it built in. Established
with TensorFlow Lite Micro, whose kernels every input of int16 agrees with, and by the tables that Vela 5.1 loads on
Ethos-U85. That silicon has the same table built in is not established.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ethos_hil.harness.npu.isa.operations import Curve

Array = npt.NDArray[Any]

_STEP_BITS = {Curve.TANH: 8, Curve.SIGMOID: 9}  # of a value, within a step of the table
_HALF = 256  # steps from 0 to the end of the table
_STEPS_IN_ONE = 24  # of sigmoid's
# Where the table is one more than sigmoid rounded to nearest, by steps from 0.
_RAISED = (
    4, 8, 12, 14, 15, 16, 17, 19, 20, 21, 22, 25, 27, 28, 29, 30, 31, 33, 34, 35, 37, 39, 40, 41, 43, 44, 45, 46, 49,
    50, 54, 62, 63, 64, 66, 82, 86, 93, 100, 103, 112, 116, 135, 255,
)  # fmt: skip


def apply(values: Array, curve: Curve, table: Array) -> Array:
    """Return tanh or sigmoid of scaled values.

    Args:
        values: whole numbers of any type and shape; 12288 is 1.0.
        curve: the function.
        table: (512, 2) int16: base and rise of each step.

    Returns:
        int16 of the same shape; 32768 would be 1.0.
    """
    bits = _STEP_BITS[curve]
    largest = (_HALF << bits) - 1
    limited = values.clip(-largest, largest).astype(np.int64)
    step = (limited >> bits) + _HALF
    rows = table.astype(np.int64)
    reached = (rows[:, 0].take(step) << bits) + rows[:, 1].take(step) * (limited & (1 << bits) - 1)
    if curve is Curve.SIGMOID:
        reached += 1 << (bits + 15)
        bits += 1
    reached += 1 << (bits - 1)
    reached -= limited < 0
    return (reached >> bits).clip(-32768, 32767).astype(np.int16)


@cache
def built_in(curve: Curve) -> Array:
    """Return the table of a function, (512, 2) int16.

    The first rise differs: at its lower end tanh is -32767, and sigmoid is 1.
    """
    steps = np.arange(_HALF)
    levels = np.floor(65536 / (1 + np.exp(-steps / _STEPS_IN_ONE)) + 0.5).astype(np.int64)
    levels[list(_RAISED)] += 1
    right = levels - 32768
    base = np.concatenate([[-right[-1]], -right[:0:-1], right])
    rise = np.diff(base, append=base[-1])
    rise[0] = int(curve is Curve.SIGMOID)
    made = np.stack([base, rise], axis=1).astype(np.int16)
    made.setflags(write=False)
    return made
