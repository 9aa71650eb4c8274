"""Programs that are compiled already: a .pte, or a .bpte, which has test cases too."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ethos_hil.base.errors import UsageError
from ethos_hil.base.regular_file import read_bytes
from ethos_hil.lowering.formats.bundle import BundledCase, BundledProgram, is_bundle

PROGRAM_SUFFIXES = (".pte", ".bpte")
FORMS = "give file.py:function, package.module:function, a .pt2, a .pte or a .bpte"
_MOST_PROGRAM = 2 << 30
"""Bytes of a .pte: the offsets in a FlatBuffer have 31 bits."""


@dataclass(frozen=True)
class ProgramFile:
    """A program that is compiled already.

    Attributes:
        label: the user's name for it.
        data: the .pte's bytes.
        cases: test cases by method, of a .bpte.
    """

    label: str
    data: bytes
    cases: Mapping[str, tuple[BundledCase, ...]] = field(default_factory=dict)

    @classmethod
    def read(cls, text: str) -> ProgramFile:
        """Read the file called `text`. Raises UsageError, which says what is wrong with it."""
        try:
            data = read_bytes(Path(text).expanduser(), most=_MOST_PROGRAM)
        except FileNotFoundError:
            raise no_file(text) from None
        except OSError as error:
            raise UsageError(f"cannot read {text}: {error.strerror}") from None
        if not is_bundle(data) and not text.lower().endswith(".bpte"):
            return cls(text, data)
        bundle = BundledProgram.parse(data, text)
        return cls(text, bundle.program, bundle.cases)


def no_file(name: str, forms: str = FORMS) -> UsageError:
    """Return the error of a file that is not there; it names a similar one that is."""
    folder = Path(name).expanduser().parent
    names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    close = difflib.get_close_matches(Path(name).name, names, n=1)
    return UsageError(f"no such file: {name}", hint=f"did you mean {folder / close[0]}?" if close else forms)
