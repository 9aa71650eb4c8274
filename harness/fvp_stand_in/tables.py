"""The tables of parameters and options, in Markdown: docs/targets.md shows them where the site is built.

`python -m ethos_hil.harness.fvp_stand_in.tables` prints them.
"""

from __future__ import annotations

import sys

from ethos_hil.harness.fvp_stand_in.command_line import OPTIONS
from ethos_hil.harness.fvp_stand_in.parameters import PARAMETERS, Parameter
from ethos_hil.harness.socs.fvps import MODELS


def parameters() -> str:
    """A row for each parameter of `-C`."""
    lines = ["| parameter | what becomes of it | |", "|---|---|---|"]
    lines += [f"| {_names(row)} | {row.treatment.value} | {row.note} |" for row in PARAMETERS]
    return "\n".join(lines) + "\n"


def options() -> str:
    """A row for each other option."""
    lines = ["| option | what becomes of it | |", "|---|---|---|"]
    lines += [f"| `{option.spelling}` | {option.treatment.value} | {option.note} |" for option in OPTIONS]
    return "\n".join(lines) + "\n"


def _names(row: Parameter) -> str:
    """Return the parameter's names on the FVPs that have it."""
    models = [model for model in MODELS.values() if row.on(model)]
    return "<br>".join(dict.fromkeys(f"`{row.name(model)}`" for model in models))


if __name__ == "__main__":
    sys.stdout.write(f"{parameters()}\n{options()}")
