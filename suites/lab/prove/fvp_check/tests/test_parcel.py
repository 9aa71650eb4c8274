"""The file to send has everything in it but whose computer it is from."""

from __future__ import annotations

import getpass
import io
import platform
import tempfile
import zipfile
from pathlib import Path

import pytest

from ethos_hil.suites.lab.prove.fvp_check.parcel import Privacy, PrivateWord, parcel


@pytest.fixture
def somebody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Privacy:
    """A user with a name, a home, a computer, a checkout and an FVP."""
    monkeypatch.setattr(getpass, "getuser", lambda: "ada")
    monkeypatch.setattr(platform, "node", lambda: "engine.lovelace.example")
    monkeypatch.setattr(Path, "home", lambda: Path("/home/ada"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return Privacy.here(Path("/home/ada/src/hil"), {"FVP_X": Path("/home/ada/fvps/bin/FVP_X")})


def contents(packed: bytes) -> dict[str, str]:
    with zipfile.ZipFile(io.BytesIO(packed)) as file:
        return {name: file.read(name).decode() for name in file.namelist()}


def test_paths_and_names_are_replaced(somebody: Privacy, tmp_path: Path) -> None:
    text = (
        f"/home/ada/fvps/bin/FVP_X -a {tmp_path}/x.elf, /home/ada/src/hil/net.py, /home/ada/.cache\n"
        "ada@engine, engine.lovelace.example; a tirada of adapters, engines"
    )
    (content,) = contents(parcel({"a.txt": text.encode()}, somebody)).values()
    assert content == (
        "<FVP_X>/FVP_X -a <tmp>/x.elf, <checkout>/net.py, <home>/.cache\n"
        "<user>@<host>, <host>; a tirada of adapters, engines"
    )


@pytest.mark.parametrize("word", ["ada", "/home/ada", "engine"])
def test_a_private_word_in_bytes_is_an_error(somebody: Privacy, word: str) -> None:
    """They are not changed, so they may not have one."""
    with pytest.raises(PrivateWord, match=r"uart\.bin has <"):
        parcel({"uart.bin": b"\x00\xff" + word.encode() + b"\x01"}, somebody)
    assert parcel({"uart.bin": b"\x00\xff\x01"}, somebody)


def test_names_that_are_ordinary_words_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "root")
    privacy = Privacy.here(Path("/srv/hil"), {})
    assert privacy.cleaned("the root of all errors") == "the root of all errors"
