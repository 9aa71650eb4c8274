"""The id of the timing model: cycles of one and the same model may be compared."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ethos_hil.base import npu
from ethos_hil.lowering.cache.versions import source_digest


@cache
def timing_model_id() -> str:
    """Return a digest of the model's source and the NPUs' numbers. Another comment makes another id, which is too
    careful, not too little.
    """
    return source_digest(Path(__file__).parent, Path(npu.__file__).parent)[:16]
