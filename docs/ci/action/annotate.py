"""Shows what is red in a file of JUnit's XML beside the code, by workflow commands of GitHub: annotate.py results.xml

It needs Python and nothing else, and always ends with status 0: the night itself says whether it is red.
"""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

MOST = 10
"""So many of a kind does GitHub show of one step."""


def commands(file: Path) -> list[str]:
    """Return a command for each failure and error. One that the declaration's line is known of leads there."""
    texts = []
    for case in ElementTree.parse(file).iter("testcase"):
        source = next((entry.get("value", "") for entry in case.iter("property") if entry.get("name") == "source"), "")
        path, _, line = source.rpartition(":")
        place = f"file={_escaped(path, ':,')},line={line}," if path and line.isdigit() else ""
        for failure in (element for kind in ("failure", "error") for element in case.findall(kind)):
            title = f"{case.get('name')} ({failure.get('type')})"
            texts.append(f"::error {place}title={_escaped(title, ':,')}::{_escaped(failure.get('message', ''))}")
    return texts


def _escaped(text: str, more: str = "") -> str:
    """Return a text as GitHub reads it: nothing in it ends the line, the property, or starts another command."""
    return "".join(f"%{ord(char):02X}" if char in "%\r\n" + more else char for char in text)


if __name__ == "__main__":
    lines = commands(Path(sys.argv[1])) if Path(sys.argv[1]).exists() else []
    lines = lines[:MOST] + (
        [f"::notice::{len(lines) - MOST} more are red; results.xml has all"] if lines[MOST:] else []
    )
    sys.stdout.write("".join(f"{line}\n" for line in lines))
