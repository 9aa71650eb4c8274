"""The code blocks of a document, and running them as a reader would: in order, in an empty folder.

- `sh`: commands. They must end with status 0, or with what `<!-- status N -->` above the block says.
- `text` behind it: what they print on stdout. White space does not count, and `...` stands for anything left out.
- a block whose first line is `# net.py`: a file of that name.
- other `python`: a cell of the document's notebook (test_code_blocks.py).

`<!-- not run: REASON -->` above a block leaves it out.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from markdown_it import MarkdownIt

from ethos_hil.harness.testing.command import Ended, run_command

ROOT = Path(__file__).resolve().parents[2]
LANGUAGES = ("sh", "python", "text", "toml", "yaml", "cpp")
NOT_RUN = re.compile(r"<!-- not run: (?P<reason>\S.*?) -->", re.DOTALL)
STATUS = re.compile(r"<!-- status (?P<status>\d+) -->")

_FILE = re.compile(r"^# (?P<name>[\w./-]+\.\w+)\n")


@dataclass(frozen=True)
class Block:
    """A fenced block, and the HTML comment right above it."""

    document: Path
    line: int
    language: str
    text: str
    comment: str

    @property
    def place(self) -> str:
        """Such as README.md:12."""
        return f"{self.document.relative_to(ROOT)}:{self.line}"

    @property
    def file(self) -> str | None:
        """The name of the file that it is, if it is one."""
        match = _FILE.match(self.text)
        return match and match["name"]

    @property
    def is_run(self) -> bool:
        """Whether it is run."""
        return NOT_RUN.search(self.comment) is None


class WrongDocument(AssertionError):
    """A document says something that is not so; the message starts with the place."""


def blocks(document: Path) -> list[Block]:
    """The fenced blocks of a Markdown file. Raise WrongDocument for one that is indented, or in an unknown language."""
    result: list[Block] = []
    comment = ""
    for token in MarkdownIt("commonmark").parse(document.read_text("utf-8")):
        line = token.map[0] + 1 if token.map else 0
        if token.type == "code_block":
            raise WrongDocument(f"{document}:{line}: a code block is indented; fence it, with its language")
        if token.type == "fence" and not token.info.startswith("{"):
            if token.info not in LANGUAGES:
                raise WrongDocument(
                    f"{document}:{line}: the language of a block is {token.info!r}; use one of {', '.join(LANGUAGES)}"
                )
            result.append(Block(document, line, token.info, token.content, comment))
        comment = token.content if token.type == "html_block" else ""
    return result


def run_blocks(document: Path, folder: Path) -> list[Block]:
    """Run a document's files and commands in a folder. Raise WrongDocument where they do something else than it says.

    Returns:
        The Python blocks that are not files: the cells of the document's notebook.
    """
    (folder / "docs").symlink_to(ROOT / "docs")
    cells = []
    printed = None
    for block in blocks(document):
        if block.language == "text":
            if printed is not None:
                check_output(block, printed)
            printed = None
            continue
        printed = None
        if not block.is_run:
            continue
        if block.file is not None:
            path = folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
            check_data(block)
        elif block.language == "sh":
            printed = run_commands(block, folder)
        elif block.language == "python":
            cells.append(block)
        else:
            raise WrongDocument(f"{block.place}: a block in {block.language} is a file; say its name in the first line")
    return cells


def check_data(block: Block) -> None:
    """Read a block of data. Raise WrongDocument if it is not valid."""
    read = {"yaml": yaml.safe_load, "toml": tomllib.loads}.get(block.language)
    try:
        if read is not None:
            read(block.text)
    except (yaml.YAMLError, tomllib.TOMLDecodeError) as error:
        raise WrongDocument(f"{block.place}: this is not {block.language}: {error}") from error


def run_commands(block: Block, folder: Path) -> str:
    """Run the commands of a block, one of ours in this process, and return what they print on stdout."""
    if re.fullmatch(r"ethos-hil [\w ./:-]+\n", block.text):
        done = run_command(*block.text.split()[1:], cwd=folder)
    else:
        command = ["bash", "-e", "-o", "pipefail", "-c", block.text]
        ran = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=280)
        done = Ended(ran.returncode, ran.stdout, ran.stderr)
    match = STATUS.search(block.comment)
    status = int(match["status"]) if match else 0
    if done.status != status:
        raise WrongDocument(
            f"{block.place}: the commands end with status {done.status}, not {status}\n"
            f"{block.text}{done.out[-2000:]}{done.err[-2000:]}"
        )
    return done.out


def environment() -> dict[str, str]:
    """The environment of a reader who has activated .venv."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def check_output(block: Block, printed: str) -> None:
    """Compare what a block shows with what was printed: its pieces between `...`, in order. Raise WrongDocument."""
    pieces = [" ".join(piece.split()) for piece in re.split(r"(?:^|\s)\.\.\.(?=\s|$)", block.text)]
    rest = " ".join(printed.split())
    for number, piece in enumerate(pieces):
        at = rest.find(piece)
        if at < 0 or (number == 0 and at > 0):
            raise WrongDocument(f"{block.place}: this is not printed (or not here):\n{piece}\nbut this is:\n{printed}")
        rest = rest[at + len(piece) :]
    if pieces[-1] and rest:
        raise WrongDocument(f"{block.place}: more is printed than is shown; end it with ...:\n{rest}")


def documents(names: Sequence[str]) -> list[Path]:
    """The files of the repository that match the patterns, in order."""
    return [path for name in names for path in sorted(ROOT.glob(name))]
