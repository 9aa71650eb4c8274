"""What tosa_reference_model answers, as bytes to compare with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ethos_hil.lowering.oracle.reference import evaluate


def reference(tosa: bytes, inputs: Sequence[np.ndarray]) -> list[bytes]:
    """The bytes of each output of a TOSA graph. Raises OracleError where there is no valid answer."""
    return [values.tobytes() for values in evaluate(tosa, inputs, "the graph")]
