"""Where the installed ExecuTorch keeps the schema of .pte files."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from ethos_hil.base.errors import ToolError

SCHEMAS = ("scalar_type.fbs", "program.fbs")
"""The files of the schema. The second includes the first."""

BUNDLE_SCHEMA = "bundled_program_schema.fbs"
"""The schema of .bpte files. It includes the first of `SCHEMAS`."""


def bundle_schema_file() -> Path:
    """The file `BUNDLE_SCHEMA`.

    Raises:
        ToolError: executorch is not installed, or does not have it.
    """
    return _beside_exir(f"devtools/bundled_program/schema/{BUNDLE_SCHEMA}", ".bpte")


def data_schema_file() -> Path:
    """The schema of .ptd files. It includes the first of `SCHEMAS`. Raises ToolError, as `bundle_schema_file`."""
    return _beside_exir("extension/flat_tensor/serialize/flat_tensor.fbs", ".ptd")


def _beside_exir(name: str, suffix: str) -> Path:
    path = schema_folder().parents[1] / name
    if path.is_file():
        return path
    raise ToolError(
        f"executorch's {path.name} was not found, so {suffix} files cannot be read",
        hint="install the tested set again (docs/install.md)",
    )


def schema_folder() -> Path:
    """The folder that holds `SCHEMAS`: executorch/exir/_serialize. ExecuTorch is located, not imported.

    Raises:
        ToolError: executorch is not installed, or has no schema there.
    """
    spec = importlib.util.find_spec("executorch")  # of a top-level package: this does not import it
    for location in (spec.submodule_search_locations or []) if spec else []:
        folder = Path(location) / "exir" / "_serialize"
        if all((folder / name).is_file() for name in SCHEMAS):
            return folder
    raise ToolError(
        "executorch's program.fbs was not found, so .pte files cannot be read",
        hint="install the tested set again (docs/install.md)",
    )
