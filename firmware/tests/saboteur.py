"""Firmware that is broken on purpose: a source is compiled with a change, and linked with all other objects."""

from __future__ import annotations

import functools
import hashlib
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from builds import BUILD, FIRMWARE, build
from filelock import FileLock

STORE = BUILD.parent / "sabotaged"


@dataclass(frozen=True)
class Change:
    """A text in a source of the firmware, which must be there once, and what takes its place."""

    source: str
    old: str
    new: str = ""


@functools.cache
def sabotaged(preset: str, *changes: Change) -> bytes:
    """Return the ELF of a preset with these changes.

    It is linked once for all workers and sessions: it stays beside the build until a source of the firmware changes.
    """
    folder = build(preset)
    kept = STORE / f"{preset}-{_state(folder / 'ethos-hil.elf')}"
    elf = kept / f"{hashlib.sha256(repr(changes).encode()).hexdigest()[:16]}.elf"
    with FileLock(BUILD / f"sabotaged-{preset}.lock"):
        if not elf.is_file():
            kept.mkdir(parents=True, exist_ok=True)
            for earlier in STORE.glob(f"{preset}-*"):
                if earlier != kept:
                    shutil.rmtree(earlier, ignore_errors=True)
            with tempfile.TemporaryDirectory(dir=kept) as scratch:
                _link(folder, changes, Path(scratch)).rename(elf)
    return elf.read_bytes()


def _state(built: Path) -> str:
    """Return a digest of a build and of all that it is built from."""
    sources = sorted(path for path in FIRMWARE.rglob("*") if path.suffix in (".h", ".cc", ".ld", ".cmake", ".txt"))
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (built, *sources)]
    return hashlib.sha256("".join(digests).encode()).hexdigest()[:16]


def _link(folder: Path, changes: tuple[Change, ...], scratch: Path) -> Path:
    """Compile the changed sources and link them with all other objects. Return the ELF."""
    elf, link = scratch / "ethos-hil.elf", _command(folder, "ethos-hil.elf")
    for number, source in enumerate(dict.fromkeys(change.source for change in changes)):
        text = (FIRMWARE / source).read_text()
        for change in changes:
            if change.source == source:
                assert text.count(change.old) == 1, f"{source} has {change.old!r} {text.count(change.old)} times"
                text = text.replace(change.old, change.new)
        edited, output = scratch / f"{number}-{Path(source).name}", scratch / f"{number}.obj"
        edited.write_text(text)
        (target,) = (file.relative_to(folder).as_posix() for file in folder.glob(f"CMakeFiles/*.dir/{source}.obj"))
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
    link = link.replace("-Map=ethos-hil.map", f"-Map={scratch}/map").replace("-o ethos-hil.elf", f"-o {elf}")
    _run(["sh", "-c", link], folder)
    return elf


def _command(folder: Path, target: str) -> str:
    return _run(["ninja", "-t", "commands", target], folder).splitlines()[-1]


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
