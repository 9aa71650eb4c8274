"""The file of a board's firmware, what its ELF was built from, and whether these sources have changed since.

The build writes that into a JSON file beside the ELF:

    python -m ethos_hil.harness.image.firmware_manifest ELF --sources firmware --board corstone300 \
        --compiler "GNU 12.2.1" --flags="-O2;-g"

CMake calls it after every build (firmware/CMakeLists.txt), so the manifest has the digest of the present sources, even
if a change in them did not change this board's firmware. It needs only the standard library, because the Python that
builds the firmware may have nothing else.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
from pathlib import Path

from ethos_hil.base.dataclasses import asdict, dataclass
from ethos_hil.base.files import read_text

SCHEMA_VERSION = 1
ELF_NAME = "ethos-hil.elf"
MANIFEST_NAME = "ethos-hil.json"
_SUFFIXES = frozenset({".cc", ".h", ".S", ".ld", ".cmake", ".json", ".py", ".txt"})
_NO_PART = ("tests", "fuzz", "boards/host")
"""Folders of the firmware that no board's build reads."""
FIRMWARE_VARIABLE = "ETHOS_HIL_FIRMWARE"
OWN = Path(__file__).parents[2] / "firmware"
"""Beside the package's folders: in a checkout a link to build/firmware, in a wheel a folder."""
_SOURCES = Path(__file__).resolve().parents[2] / "firmware"
IN_CHECKOUT = (_SOURCES / "CMakeLists.txt").is_file()


@dataclass(frozen=True)
class FirmwareManifest:
    """The properties of an ELF and its build.

    Attributes:
        board: its folder below firmware/boards, such as "corstone300".
        elf: the file's name.
        sha256: SHA-256 of the file, hexadecimal.
        size: bytes in the file.
        sources: the digest of the sources it was built from (`source_digest`).
        compiler: the compiler's name and version.
        flags: flags of the compiler and the linker; paths in the repository start with "firmware".
    """

    board: str
    elf: str
    sha256: str
    size: int
    sources: str
    compiler: str
    flags: tuple[str, ...]

    @classmethod
    def read(cls, path: Path) -> FirmwareManifest:
        """Read the manifest in a file.

        Raises:
            ValueError: it cannot be read, or is not a manifest of this version; the message says why.
        """
        try:
            document = json.loads(read_text(path, most=1 << 20))
            if not isinstance(document, dict):
                raise ValueError("it is not a JSON object")
            version = document.pop("schema_version")
            if version != SCHEMA_VERSION:
                raise ValueError(f"schema version {version}, expected {SCHEMA_VERSION}")
            manifest = cls(**{**document, "flags": tuple(document["flags"])})
        except OSError as error:
            raise ValueError(f"{path}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} is not a manifest of a firmware: {error}") from error
        return manifest

    def write(self, path: Path) -> None:
        """Write it, unless the file has it already."""
        text = json.dumps({"schema_version": SCHEMA_VERSION, **asdict(self)}, indent=2) + "\n"
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")


def source_digest(folder: Path) -> str:
    """Return the SHA-256 of all sources below the folder firmware/, by their paths in it; hexadecimal.

    The sources of other boards count too. So a board's firmware may be reported as old without need; then `make
    firmware` does nothing but write the manifest again.
    """
    digest = hashlib.sha256()
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.suffix in _SUFFIXES}
    for name, path in sorted(files.items()):
        if not name.startswith(tuple(f"{part}/" for part in _NO_PART)):
            digest.update(name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def describe(elf: Path, sources: Path, board: str, compiler: str, flags: list[str]) -> FirmwareManifest:
    """Return the manifest of an ELF that was just built from the folder `sources`."""
    data = elf.read_bytes()
    root = str(sources)
    return FirmwareManifest(
        board=board,
        elf=elf.name,
        sha256=hashlib.sha256(data).hexdigest(),
        size=len(data),
        sources=source_digest(sources),
        compiler=compiler,
        flags=tuple(flag.replace(root, "firmware") for flag in flags),
    )


def main() -> None:
    """Write the manifest of one ELF."""
    parser = argparse.ArgumentParser(description="Write the manifest of a firmware's ELF beside it.")
    parser.add_argument("elf", type=Path)
    parser.add_argument("--sources", type=Path, required=True, help="the folder firmware/")
    parser.add_argument("--board", required=True)
    parser.add_argument("--compiler", required=True, help="its name and version")
    parser.add_argument("--flags", required=True, help="of the compiler and the linker, as a list of CMake's")
    options = parser.parse_args()
    manifest = describe(options.elf, options.sources, options.board, options.compiler, options.flags.split(";"))
    manifest.write(options.elf.with_name(MANIFEST_NAME))


def firmware_path(soc: str) -> Path:
    """Return the path of the firmware's ELF for a system on chip, whether it exists or not.

    It is $ETHOS_HIL_FIRMWARE (a file, or a folder with one for each board); else, in a checkout, the output of `make
    firmware`; else a file of the installed package, from a wheel.
    """
    setting = os.environ.get(FIRMWARE_VARIABLE)
    if setting and not Path(setting).is_dir():
        return Path(setting)
    return (Path(setting) if setting else OWN.resolve()) / board_of(soc) / ELF_NAME


def board_of(soc: str) -> str:
    """Return the board below firmware/boards that is this system on chip."""
    from ethos_hil.harness.socs.registry import find_soc

    return find_soc(soc).firmware.name


def remedy() -> str:
    """Return the remedy for a missing firmware."""
    if IN_CHECKOUT:
        return f"run `make firmware`, or set {FIRMWARE_VARIABLE}"
    return f"install a wheel that `make wheel` built, or set {FIRMWARE_VARIABLE}"


def firmware_doubt(elf: bytes) -> str | None:
    """Return a warning, in one sentence, if an ELF may differ from its sources; None if nothing suggests this.

    Only an ELF that was built in this checkout is checked. One built elsewhere is the user's own choice, and a wheel
    has no sources.
    """
    built = (path for path in _builds() if path.stat().st_size == len(elf) and path.read_bytes() == elf)
    return next((_doubt_of(path, elf) for path in built), None)


def doubts_of_built() -> list[str]:
    """Return the warnings of `firmware_doubt` for the firmware that runs use here; none for the user's own firmware."""
    if os.environ.get(FIRMWARE_VARIABLE):
        return []
    return [doubt for path in _builds() if (doubt := _doubt_of(path, path.read_bytes())) is not None]


def _builds() -> list[Path]:
    """Not what is left of a board that no SoC declares any more: nothing builds it again."""
    built = sorted(OWN.glob(f"*/{ELF_NAME}")) if IN_CHECKOUT else []
    return [path for path in built if (_SOURCES / "boards" / path.parent.name / "soc.h").is_file()]


def _doubt_of(path: Path, elf: bytes) -> str | None:
    board = path.parent.name
    try:
        manifest = FirmwareManifest.read(path.with_name(MANIFEST_NAME))
    except ValueError:
        manifest = None
    if manifest is None or manifest.sha256 != hashlib.sha256(elf).hexdigest():
        return f"nothing says from which sources the firmware of {board} was built; run `make firmware`"
    if manifest.sources != _digest_of_sources():
        return f"the firmware of {board} was built from other sources than there are now; run `make firmware`"
    return None


@functools.cache
def _digest_of_sources() -> str:
    return source_digest(_SOURCES)


if __name__ == "__main__":
    main()
