"""TOML of a user's that would take minutes, or end in a RecursionError: refused at once, with its line."""

from __future__ import annotations

import time
import tomllib
from pathlib import Path

import pytest

from ethos_hil.base.toml_file import DEEPEST, BadToml, read_toml

LONG = ".".join(["a"] * 50_000)
DEEP = "nested more than 16 deep (at line 2)"
PARTS = "a key has more than 16 parts (at line 2)"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f"{LONG} = 1", PARTS),
        (f"[{LONG}]", PARTS),
        (f"[[{LONG}]]", PARTS),
        (f"x = {{{LONG} = 1}}", PARTS),
        (r'"\"".' + LONG + " = 1", PARTS),
        (" . ".join([r'"\""', "'\"'", "b"] * 10) + " = 1", PARTS),
        ("x = " + "[" * 5_000 + "]" * 5_000, DEEP),
        ("x = " + "{a=" * 5_000, DEEP),
        ("x = " + "[\n" * 5_000, "nested more than 16 deep (at line 18)"),
        ("x = '''\n'''\ny = " + "[" * 5_000, "nested more than 16 deep (at line 4)"),
    ],
)
def test_what_is_too_deep_is_refused_before_it_is_parsed(tmp_path: Path, line: str, said: str) -> None:
    """The first would take tomllib 30 s, the arrays end in a RecursionError."""
    (tmp_path / "a.toml").write_text(f"ok = 1\n{line}\n")
    began = time.process_time()
    with pytest.raises(BadToml, match=r"a\.toml is not TOML: ") as refused:
        read_toml(tmp_path / "a.toml")
    assert said in str(refused.value)
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    "text",
    [
        f'x = "{LONG} {"[" * 100}"',
        f"x = '{LONG} {'{' * 100}'",
        f'x = """\n{LONG} {"[" * 100} "" \\"""{"[" * 100}\n"""',
        f"x = '''\n{LONG} '' {'[' * 100}\n'''",
        f"# {LONG} {'[' * 100}",
        "x = [" + "[1], {a = 'b'}, " * 1_000 + "]",
        "\n".join(f"k{n}.a = [1.5, 2.5]" for n in range(1_000)),
        ".".join("a" * DEEPEST) + " = 1",
        "x = " + "[" * DEEPEST + "]" * DEEPEST,
    ],
)
def test_what_only_looks_so_is_read(tmp_path: Path, text: str) -> None:
    """Brackets and dots in strings and comments, and many that are not deep."""
    (tmp_path / "a.toml").write_text(text)
    assert read_toml(tmp_path / "a.toml") == (text, tomllib.loads(text))
