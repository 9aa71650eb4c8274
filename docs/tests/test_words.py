"""The word list of the glossary is kept: words that it rules out are in no document, message, docstring or comment."""

from __future__ import annotations

import io
import re
import subprocess
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = ROOT / "docs/glossary.md"
KINDS = (".py", ".md", ".cc", ".h", ".toml", ".cmake", ".js", ".html")
FSTRINGS = {getattr(tokenize, "FSTRING_MIDDLE", -1)}
"""Parts of f-strings, which are tokens of their own since Python 3.12."""
ROW = re.compile(r"^\| (?P<say>[^|]+) \| (?P<avoid>[^|]+) \|$", re.MULTILINE)
COMPARATIVES = (
    "longer|more|one|fewer|less|better|worse|"
    "(?:larg|small|fast|slow|high|low|near|lat|earli|oth|old|new|great|strict|short)er"
)
"""What is plain English after "is no"."""


def avoided(glossary: str) -> dict[str, re.Pattern[str]]:
    """Return what the glossary's list rules out, each with what finds it: whole words, in any case.

    "X is no Y" stands for every noun. "there is no Y", "there is none" and "is no longer" are plain English, and
    "is None" is Python.
    """
    section = glossary.partition("### Plain words")[2].partition("\n## ")[0]
    phrases = [phrase.strip() for row in ROW.finditer(section) for phrase in row["avoid"].split(",")]
    patterns = {}
    for phrase in phrases[1:]:
        if phrase == "X is no Y":
            patterns[phrase] = re.compile(rf"(?<!\bthere )\b(?:is|are|was|were|be) no (?!(?:{COMPARATIVES})\b)\w", re.I)
        elif not phrase.startswith("-"):
            patterns[phrase] = re.compile(rf"(?<!\b[Tt]here )\b{re.escape(phrase)}\b", 0 if "none" in phrase else re.I)
    return patterns


def prose(path: Path, text: str) -> str:
    """Return the text of a file, and of a Python file only its texts and comments, on their lines."""
    if path.suffix != ".py":
        return text
    lines = [""] * (text.count("\n") + 2)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.STRING, tokenize.COMMENT) or token.type in FSTRINGS:
            for offset, line in enumerate(token.string.split("\n")):
                lines[token.start[0] - 1 + offset] += f" {line}"
    return "\n".join(lines)


def violations(path: Path, text: str, patterns: dict[str, re.Pattern[str]]) -> list[str]:
    """Return the place, word and line of each use of what is ruled out."""
    return [
        f"{path.relative_to(ROOT) if path.is_absolute() else path}:{number}: {phrase}: {line.strip()[:140]}"
        for number, line in enumerate(prose(path, text).split("\n"), start=1)
        for phrase, pattern in patterns.items()
        if pattern.search(line)
    ]


def files() -> list[Path]:
    """Return what people read: all sources and documents but the laboratory, the changes of releases, and this list."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [
        ROOT / name
        for name in listed.stdout.split("\n")
        if name.endswith(KINDS)
        and not name.startswith(("suites/lab/", "docs/attacks.md", "CHANGELOG.md"))
        and "/tests/" not in name
        and ROOT / name != GLOSSARY
    ]


def test_the_word_list_is_kept() -> None:
    patterns = avoided(GLOSSARY.read_text("utf-8"))
    assert len(patterns) >= 10
    wrong = [line for path in files() for line in violations(path, path.read_text("utf-8"), patterns)]
    assert wrong == []


@pytest.mark.parametrize(
    ("name", "text", "phrases"),
    [
        ("a.py", 'raise UsageError(f"{path} is no text of a baseline")', ["X is no Y"]),
        ("a.py", '"""Nobody writes it anew."""\n# what may befall a board\n', ["nobody", "anew", "befall"]),
        ("a.py", "# where nobody looked\n# a path that is no folder\n", ["nobody", "X is no Y"]),
        ("a.py", "anew = 1\nthere = 'there is no target, and it is no longer slow; nothing is no slower'\n", []),
        ("a.py", "# a field that is none\n# a field that is None\n", ["is none"]),
        ("a.md", "It can be gone on with.\n", ["gone on with"]),
        ("a.cc", "// bytes that are no frame\n", ["X is no Y"]),
    ],
)
def test_a_word_that_is_ruled_out_is_seen(name: str, text: str, phrases: list[str]) -> None:
    seen = violations(Path(name), text, avoided(GLOSSARY.read_text("utf-8")))
    assert sorted(line.split(": ")[1] for line in seen) == sorted(phrases)
