"""No value in any field of a .pt2 executes anything, or raises anything but a clear error.

Started as a program, with a FILE and a number, it puts hostile values into every field of the file's documents, and
loads each that is a multiple of the number. It prints how many there are, and a line for each that executed something
or raised anything but a UsageError.
"""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from ethos_hil.base.errors import UsageError
from ethos_hil.lowering.model.tests.test_exported_file import CONSTANTS, PROGRAM, WEIGHTS, contents, save, write
from ethos_hil.lowering.model.torch_model import load_model
from ethos_hil.lowering.upstream.names.operators import register_operators

TOUCH = "__import__('os').system('touch OWNED')"
TEXTS = (
    TOUCH, f"x={TOUCH}", f"x): {TOUCH} #", f"'; {TOUCH} #", "torch.os.system", "torch.ops.aten.from_file.default",
    "__class__", "../../etc/passwd", "10**10000", "Pow(Integer(10), Integer(99999999))", "(" * 5000 + ")" * 5000,
    "a" * 200_000, "\x00", "\ud800", "",
)  # fmt: skip
OTHERS: tuple[Any, ...] = (
    10**30, -1, 2**62, 1e308, None, True, [TOUCH], {"as_expr": {"expr_str": TOUCH, "hint": None}}, [], {},
)  # fmt: skip
STARTS = ("os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "os.fork", "os.remove", "socket.connect")
Path_ = tuple[Any, ...]


def fields(value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, bool]]:
    """Yield the path of each leaf, and of each key of an object (True)."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield (*path, key), True
            yield from fields(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from fields(item, (*path, index))
    else:
        yield path, False


def changes(document: Any) -> Iterator[Any]:
    """Yield the document with one change. Fields that differ only by their place in a list count as one."""
    seen = set()
    for path, is_key in fields(document):
        kind = tuple("#" if isinstance(step, int) else step for step in path), is_key
        if kind in seen:
            continue
        seen.add(kind)
        for value in TEXTS if is_key else TEXTS + OTHERS:
            changed = copy.deepcopy(document)
            place = changed
            for step in path[:-1]:
                place = place[step]
            if is_key:
                place[value] = place.pop(path[-1])
            else:
                place[path[-1]] = value
            yield changed


def main() -> None:
    """Try the changes."""
    register_operators()
    load_model(sys.argv[1])  # torch imports more of itself, and makes its folders
    members, every, count = contents(Path(sys.argv[1])), int(sys.argv[2]), 0
    started: list[str] = []
    armed = False

    def watch(event: str, arguments: Any) -> None:
        if armed and (event in STARTS or (event == "exec" and "OWNED" in repr(arguments[0].co_consts))):
            started.append(f"{event} {ascii(arguments)[:100]}")

    sys.addaudithook(watch)
    for member in (PROGRAM, WEIGHTS, CONSTANTS):
        for changed in changes(json.loads(members[member])):
            count += 1
            if count % every:
                continue
            write(Path("evil.pt2"), {**members, member: json.dumps(changed).encode()})
            armed = True
            try:
                load_model("evil.pt2")
            except UsageError:
                pass
            except BaseException as error:
                sys.stdout.write(f"change {count}: {type(error).__name__}: {ascii(error)[:200]}\n")
            armed = False
            if started or Path("OWNED").exists():
                sys.stdout.write(f"change {count}: executed {started}\n")
                started.clear()
    sys.stdout.write(f"{count} changes with torch {torch.__version__.partition('+')[0]}\n")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "every"), [pytest.param("buffers", 53, marks=pytest.mark.proof), ("branch", 23)])
def test_no_field_executes_anything(tmp_path: Path, name: str, every: int) -> None:
    path = save(name, tmp_path)
    command = [sys.executable, "-m", "ethos_hil.lowering.model.tests.test_hostile_fields", str(path), str(every)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = done.stdout.splitlines()
    assert len(lines) == 1, lines[:5]
    assert int(lines[0].split()[0]) > 1000
    assert not (tmp_path / "OWNED").exists()


if __name__ == "__main__":
    main()
