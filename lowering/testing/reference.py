"""What tosa_reference_model answers, as bytes to compare with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ethos_hil.base.errors import OracleError
from ethos_hil.lowering.conditions.process import quiet
from ethos_hil.lowering.oracle.reference import evaluate


def reference(tosa: bytes, inputs: Sequence[np.ndarray]) -> list[bytes]:
    """The bytes of each output of a TOSA graph. Raises OracleError where there is no valid answer."""
    return [values.tobytes() for values in evaluate(tosa, inputs, "the graph")]


def reference_model() -> Any:
    """Return the module tosa_reference_model, for measurements in this process. Raises OracleError if it is missing."""
    try:
        with quiet():
            import tosa_reference_model
    except ImportError as error:
        raise OracleError(f"tosa_reference_model cannot be imported: {error}", hint="run make setup") from error
    return tosa_reference_model
