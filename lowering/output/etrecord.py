"""ExecuTorch's ETRecord of a program: what its own tools read beside a profile."""

from __future__ import annotations

import io
import tempfile
import zipfile
from pathlib import Path
from typing import Any

_LEFT_OUT = "exported_program"
"""The program before it was lowered, about half of the file. Upstream's reader does without it."""


def etrecord_of(written: Any) -> bytes:
    """Return the ETRecord of a written program, deflated, without the program as it was before lowering.

    Args:
        written: upstream's manager of the program. It was lowered with `generate_etrecord`.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.etrecord"
        written.get_etrecord().save(str(path))
        packed = io.BytesIO()
        with zipfile.ZipFile(path) as source, zipfile.ZipFile(packed, "w") as kept:
            for name in source.namelist():
                if not name.startswith(_LEFT_OUT):
                    # A fixed date: the same program gives the same file.
                    kept.writestr(zipfile.ZipInfo(name), source.read(name), zipfile.ZIP_DEFLATED, 1)
    return packed.getvalue()
