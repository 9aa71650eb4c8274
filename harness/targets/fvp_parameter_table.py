"""The table of the parameters that FVPs are run with, in Markdown: docs/targets.md shows it where the site is built.

`python -m ethos_hil.harness.targets.fvp_parameter_table` prints it.
"""

from __future__ import annotations

import sys

from ethos_hil.harness.socs.fvps import MODELS
from ethos_hil.harness.targets.fvp_parameters import PARAMETERS, Need, Use

_WITHOUT = {
    Need.NEEDED: "the run is refused",
    Need.USUAL: "left out, with a note",
    Need.EXTRA: "left out",
}


def markdown() -> str:
    """Return a row for each parameter."""
    rows = [
        (dict.fromkeys(row.name(model.fvp) for model in MODELS.values()), row.value, row.use, row.need, row.why)
        for row in PARAMETERS
    ]
    for use in (Use.EVERY_RUN, Use.RUNNER):
        for model in MODELS.values():
            own = model.fvp.settings if use is Use.EVERY_RUN else model.fvp.runner_settings
            why = f"{model.fvp.executable} only"
            rows += [({name: None}, value, use, Need.USUAL, why) for name, value in own]
    lines = ["| parameter | value | set for | an FVP without it | |", "|---|---|---|---|---|"]
    for names, value, use, need, why in rows:
        shown = "<br>".join(f"`{name}`" for name in names)
        lines.append(f"| {shown} | `{value}` | {use.value} | {_WITHOUT[need]} | {why} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(markdown())
