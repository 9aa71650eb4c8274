"""What `ethos_hil` offers, as type checkers and editors read it; `python -m ethos_hil.harness.testing.stub` writes it.

The functions of the API take the fields of a question as `**options`, so their keywords are known only at run time.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ethos_hil

ASKING = ("evaluate", "lower", "preflight", "profile", "run")
"""The functions that ask a question."""
FILE = Path(ethos_hil.__file__).with_suffix(".pyi")
_HEAD = '''"""Types of what `ethos_hil` offers. Made by `python -m ethos_hil.harness.testing.stub`; do not edit."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ethos_hil.base.options import Scheme as Scheme
from ethos_hil.harness.api import Inputs as Inputs
from ethos_hil.harness.api import Model as Model
from ethos_hil.harness.dry_run.survey import Survey as Survey
from ethos_hil.harness.evaluate.evaluation import Evaluation as Evaluation
from ethos_hil.harness.terminal.progress import Reporter as Reporter

__all__: list[str]

def home_of(name: str) -> str: ...
'''


def stub() -> str:
    """Return the text of the file: imports of what is as it is written, and the functions that ask a question."""
    imports = functions = ""
    for name in ethos_hil.__all__:
        if name in ASKING:
            functions += _function(getattr(ethos_hil, name))
        else:
            imports += f"from {ethos_hil.home_of(name)} import {name} as {name}\n"
    return _HEAD.replace("\n\n__all__", f"\n{imports}\n__all__") + functions


class _Unquoted(str):
    __slots__ = ()
    __repr__ = str.__str__


def _function(function: Callable[..., Any]) -> str:
    """Return a line, which a formatter divides; annotations are texts, and shown without quotes."""
    signature = inspect.signature(function)
    typed = [each.replace(annotation=_Unquoted(each.annotation)) for each in signature.parameters.values()]
    whole = signature.replace(parameters=typed, return_annotation=_Unquoted(signature.return_annotation))
    return f"def {function.__name__}{whole}: ...\n"


if __name__ == "__main__":
    FILE.write_text(stub())
