"""Firmware that is broken on purpose: a source is compiled with a change, and linked with all other objects."""

from __future__ import annotations

import functools
import shlex
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from builds import FIRMWARE, build


@dataclass(frozen=True)
class Change:
    """A text in a source of the firmware, which must be there once, and what takes its place."""

    source: str
    old: str
    new: str = ""


@functools.cache
def sabotaged(preset: str, *changes: Change) -> bytes:
    """Return the ELF of a preset with these changes."""
    folder = build(preset)
    with tempfile.TemporaryDirectory() as scratch:
        link = _command(folder, "ethos-hil.elf")
        for number, source in enumerate(dict.fromkeys(change.source for change in changes)):
            text = (FIRMWARE / source).read_text()
            for change in changes:
                if change.source == source:
                    assert text.count(change.old) == 1, f"{source} has {change.old!r} {text.count(change.old)} times"
                    text = text.replace(change.old, change.new)
            edited, output = Path(scratch) / f"{number}-{Path(source).name}", Path(scratch) / f"{number}.obj"
            edited.write_text(text)
            target = _object(folder, source)
            compile_it = shlex.split(_command(folder, target))
            words = {
                str(FIRMWARE / source): str(edited),
                target: str(output),
                f"{target}.d": f"{output}.d",
                "-Werror": "-w",
            }
            _run([words.get(word, word) for word in compile_it], folder)
            assert link.count(target) == 1
            link = link.replace(target, str(output))
        elf = Path(scratch) / "ethos-hil.elf"
        link = link.replace("-Map=ethos-hil.map", f"-Map={scratch}/map").replace("-o ethos-hil.elf", f"-o {elf}")
        _run(["sh", "-c", link], folder)
        return elf.read_bytes()


def _object(folder: Path, source: str) -> str:
    """Return the object of a source by its path in the build's folder."""
    (file,) = folder.glob(f"CMakeFiles/*.dir/{source}.obj")
    return file.relative_to(folder).as_posix()


def _command(folder: Path, target: str) -> str:
    return _run(["ninja", "-t", "commands", target], folder).splitlines()[-1]


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
