"""The list of all parts of the wheel, in CycloneDX: the tested packages, and what each board's firmware is built of.

    python -m ethos_hil.suites.lab materials build/ethos-hil.cdx.json

`make wheel` calls it, and setup.py puts the file into the wheel, where PEP 770 has it. A package is of scope "required"
if ethos-hil needs it to run, else "optional". The libraries of the firmware are those that the linker took members of,
by its map; Debian's package manager knows which package a library is of.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer
from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from ethos_hil.base.errors import ToolError
from ethos_hil.harness.doctor.examination import OURS, requirements, tested_versions
from ethos_hil.harness.image.firmware_manifest import ELF_NAME, MANIFEST_NAME, FirmwareManifest
from ethos_hil.harness.socs.registry import SOCS
from ethos_hil.lowering.upstream.names.schemas import schema_folder

ROOT = Path(__file__).resolve().parents[2]
FIRMWARE = ROOT / "build/firmware"
_LICENCE_LENGTH = 100
"""Longer ones are whole texts, not names."""
_MEMBER = re.compile(r"^(/\S+\.a)\(", re.MULTILINE)
"""A member of an archive, in the first part of GNU ld's map."""


def bill(firmware: Path = FIRMWARE) -> Bom:
    """Return the parts of the wheel that would be built now.

    Args:
        firmware: the folder with a folder for each board, as the build made them.

    Raises:
        ToolError: a board's firmware is not there, is not the one of its manifest, or has no linker map.
    """
    ours = _package(OURS, metadata.version(OURS), ComponentType.APPLICATION, None)
    bom = Bom()
    bom.metadata.component = ours
    packages = _packages(bom)
    shared = _sources(packages)
    boards = [_board(bom, firmware / soc.firmware.name, shared) for soc in SOCS]
    needed: dict[str, set[Component]] = {}
    for requirement in requirements():
        if (part := packages.get(_normal(requirement.name))) is not None:
            needed.setdefault(_normal(requirement.by), set()).add(part)
    for name, parts in needed.items():
        if name != OURS and name in packages:
            bom.register_dependency(packages[name], sorted(parts))
    bom.register_dependency(ours, [*sorted(needed.get(OURS, ())), *boards])
    return bom


def write(path: Path) -> Bom:
    """Write the list of parts to a file, as JSON of CycloneDX 1.6, and return it.

    Raises:
        ToolError: as `bill`; or the list breaks CycloneDX's schema.
    """
    bom = bill()
    text = JsonV1Dot6(bom).output_as_string(indent=2)
    wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if wrong is not None:
        raise ToolError(f"the list of parts is not CycloneDX: {str(wrong).splitlines()[0]}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n", "utf-8")
    return bom


def _packages(bom: Bom) -> dict[str, Component]:
    """Add all packages of the locks, and return them by their normalised names."""
    needed = {_normal(requirement.name) for requirement in requirements()}
    packages = {}
    for name, version in tested_versions(ROOT).items():
        scope = ComponentScope.REQUIRED if name in needed else ComponentScope.OPTIONAL
        packages[name] = _package(name, version, ComponentType.LIBRARY, scope)
        bom.components.add(packages[name])
    return packages


def _package(name: str, version: str, kind: ComponentType, scope: ComponentScope | None) -> Component:
    return Component(
        name=name,
        version=version,
        type=kind,
        scope=scope,
        bom_ref=f"{name}=={version}",
        purl=PackageURL("pypi", name=name, version=version),
        licenses=[LicenseFactory().make_from_string(text) for text in _licences(name)],
    )


def _licences(name: str) -> Iterable[str]:
    """The licence as the package itself says it, if it does so in a few words."""
    try:
        about = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return
    text = about["License-Expression"] or about["License"] or ""
    if text and "\n" not in text and len(text) <= _LICENCE_LENGTH and text != "UNKNOWN":
        yield text


def _sources(packages: dict[str, Component]) -> list[Component]:
    """What all boards' firmware is compiled from and is not of this repository: both are in packages of the locks."""
    include = schema_folder().parents[2] / "include/flatbuffers/base.h"
    parts = dict(re.findall(r"#define FLATBUFFERS_VERSION_(MAJOR|MINOR|REVISION) (\d+)", include.read_text("utf-8")))
    version = ".".join(parts[part] for part in ("MAJOR", "MINOR", "REVISION"))
    flatbuffers = Component(
        name="flatbuffers (C++ headers)",
        version=version,
        bom_ref=f"flatbuffers-headers=={version}",
        purl=PackageURL("github", "google", "flatbuffers", f"v{version}"),
        licenses=[LicenseFactory().make_from_string("Apache-2.0")],
        properties=[Property(name="ethos-hil:from", value=f"tosa-tools {packages['tosa-tools'].version}")],
    )
    schema = schema_folder()
    commit = re.search(r"git_version\D*'([0-9a-f]{40})'", (schema.parents[1] / "version.py").read_text("utf-8"))
    executorch = packages["executorch"]
    program = Component(
        name="executorch (schema of .pte)",
        version=executorch.version,
        bom_ref=f"executorch-schema=={executorch.version}",
        purl=PackageURL("github", "pytorch", "executorch", commit[1] if commit else f"v{executorch.version}"),
        licenses=[LicenseFactory().make_from_string("BSD-3-Clause")],
        hashes=[_sha256((schema / "program.fbs").read_bytes())],
        properties=[Property(name="ethos-hil:from", value=f"executorch {executorch.version}")],
    )
    return [flatbuffers, program]


def _board(bom: Bom, folder: Path, shared: list[Component]) -> Component:
    """Add a board's firmware with the parts it is built of, and return it."""
    try:
        manifest = FirmwareManifest.read(folder / MANIFEST_NAME)
        elf = (folder / ELF_NAME).read_bytes()
        text = (folder / ELF_NAME).with_suffix(".map").read_text("utf-8")
    except (OSError, ValueError) as error:
        raise ToolError(
            f"the firmware of {folder.name} has no known parts: {error}", hint="run `make firmware`"
        ) from error
    if hashlib.sha256(elf).hexdigest() != manifest.sha256:
        raise ToolError(f"{folder / ELF_NAME} is not what its manifest describes", hint="run `make firmware`")
    firmware = Component(
        name=f"firmware of {manifest.board}",
        version=metadata.version(OURS),
        type=ComponentType.FIRMWARE,
        scope=ComponentScope.REQUIRED,
        bom_ref=f"firmware-{manifest.board}",
        licenses=[LicenseFactory().make_from_string("BSD-3-Clause")],
        hashes=[_sha256(elf)],
        properties=[
            Property(name="ethos-hil:compiler", value=manifest.compiler),
            Property(name="ethos-hil:sources", value=manifest.sources),
        ],
    )
    known = {part.bom_ref.value: part for part in bom.components}
    parts = [*shared, *(_library(path, manifest.compiler) for path in sorted(archives(text)))]
    unique = {part.bom_ref.value: known.get(part.bom_ref.value, part) for part in parts}
    bom.components.update([firmware, *unique.values()])
    bom.register_dependency(firmware, unique.values())
    return firmware


def archives(linker_map: str) -> set[Path]:
    """Return the archives that GNU ld took members of, by its map."""
    return {Path(path).resolve() for path in _MEMBER.findall(linker_map.partition("\nLOAD ")[0])}


def _library(archive: Path, compiler: str) -> Component:
    """Return the Debian package that an archive is of; the archive itself where no package manager knows it."""
    answer = _asked("dpkg-query", "--search", str(archive))
    if answer is None:
        return Component(
            name=archive.name,
            version=compiler,
            bom_ref=f"{archive.name} of {compiler}",
            hashes=[_sha256(archive.read_bytes())],
            properties=[Property(name="ethos-hil:from", value=f"the toolchain of {compiler}")],
        )
    name = answer.partition(":")[0]
    version = _asked("dpkg-query", "--show", "--showformat", "${Version}", name)
    purl = PackageURL("deb", "debian", name, version)
    return Component(name=name, version=version, bom_ref=f"deb:{name}=={version}", purl=purl)


def _asked(*command: str) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def _sha256(data: bytes) -> HashType:
    return HashType(alg=HashAlgorithm.SHA_256, content=hashlib.sha256(data).hexdigest())


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def main(path: Annotated[Path, typer.Argument(help="the file to write")]) -> None:
    """Write the list of the wheel's parts, in CycloneDX."""
    write(path)
