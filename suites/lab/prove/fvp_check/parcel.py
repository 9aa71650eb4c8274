"""The file to send: everything that was found, without a word of whose computer it was found on."""

from __future__ import annotations

import getpass
import io
import os
import platform
import re
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_NO_SECRETS = ("root", "user", "runner", "ubuntu", "localhost", "")
"""Names of users and computers that tell nothing, and are ordinary words."""
_TEXT = (".txt", ".json", ".jsonl")


class PrivateWord(Exception):
    """A private word is left in what is to be sent. That is a defect of this module."""


@dataclass(frozen=True)
class Privacy:
    """The private words of this computer, and what stands for each.

    Attributes:
        words: in the order in which they are replaced: paths before what they contain.
    """

    words: tuple[tuple[str, str], ...]

    @classmethod
    def here(cls, checkout: Path, fvps: Mapping[str, Path]) -> Privacy:
        """Return those of this computer.

        Args:
            checkout: the folder of this repository.
            fvps: paths of the FVPs, by what stands for their folders.
        """
        pairs = [(str(path.parent), f"<{name}>") for name, path in fvps.items()]
        pairs += [(os.path.realpath(path.parent), f"<{name}>") for name, path in fvps.items()]
        pairs += [(str(checkout), "<checkout>"), (os.path.realpath(checkout), "<checkout>")]
        pairs += [(tempfile.gettempdir(), "<tmp>"), (os.path.realpath(tempfile.gettempdir()), "<tmp>")]
        pairs += [(str(Path.home()), "<home>"), (os.path.realpath(Path.home()), "<home>")]
        paths = sorted({word for word in pairs if len(word[0]) > 1}, key=lambda it: -len(it[0]))
        names = [(_user(), "<user>"), (platform.node(), "<host>"), (platform.node().partition(".")[0], "<host>")]
        return cls((*paths, *(name for name in names if name[0].lower() not in _NO_SECRETS)))

    def cleaned(self, text: str) -> str:
        """Return `text` with every private word replaced."""
        for word, stand_in in self.words:
            text = _pattern(word).sub(stand_in, text)
        return text

    def check(self, name: str, data: bytes) -> None:
        """Check what is to be sent. Raises PrivateWord: a word is left in it."""
        text = data.decode("latin-1")
        for word, stand_in in self.words:
            if _pattern(word).search(text):
                raise PrivateWord(f"{name} has {stand_in} in it")


def _pattern(word: str) -> re.Pattern[str]:
    """Paths count everywhere, names only as whole words."""
    return re.compile(re.escape(word) if "/" in word else rf"(?<![A-Za-z0-9]){re.escape(word)}(?![A-Za-z0-9])")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def parcel(files: Mapping[str, bytes], privacy: Privacy) -> bytes:
    """Return a .zip of `files`, by name: texts cleaned, others as they are.

    Raises:
        PrivateWord: a private word is left in one.
    """
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in files.items():
            if name.endswith(_TEXT):
                data = privacy.cleaned(data.decode("utf-8", "replace")).encode()
            privacy.check(name, data)
            file.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return whole.getvalue()
