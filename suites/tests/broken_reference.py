"""A stand-in for tosa_reference_model, to see that an oracle that is missing or broken is never passed over."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ethos_hil.lowering.native.worker import REFERENCE_MODEL

MISSING = "raise ImportError('no such library')\n"
UNPREDICTABLE = """
import importlib, sys
from pathlib import Path

sys.path.remove(str(Path(__file__).parent))
here = sys.modules.pop(__name__)
real = importlib.import_module(__name__)
sys.modules[__name__] = here
GraphStatus = real.GraphStatus

def run(*arguments):
    return real.run(*arguments)[0], GraphStatus.TOSA_UNPREDICTABLE
"""
"""Computes as the real one does, and says that it is not valid."""


@contextmanager
def reference_model_is(text: str, folder: Path) -> Iterator[None]:
    """While inside, the reference model is a module with this text, which is written into `folder`."""
    (folder / "tosa_reference_model.py").write_text(text)
    REFERENCE_MODEL.stop()
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        REFERENCE_MODEL.stop()
