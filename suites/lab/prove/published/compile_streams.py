"""Compiles the networks of the published runs with the Vela that compiled them, in an environment of its own."""

from __future__ import annotations

import csv
import hashlib
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from ethos_hil.base.errors import CompileError, UsageError
from ethos_hil.harness.scan.environment import KeptEnvironments, VersionEnvironment
from ethos_hil.harness.scan.releases import VELA
from ethos_hil.harness.terminal.progress import Reporter
from ethos_hil.lowering.formats.npu_network import read_tflite
from ethos_hil.lowering.map.delegate_map import read_tables
from ethos_hil.lowering.native.worker import NativeTool
from ethos_hil.lowering.vela.compiler import DEBUG_FLAGS
from ethos_hil.lowering.vela.ini import SHIPPED
from ethos_hil.suites.lab.prove.published.published_point import PublishedPoint
from ethos_hil.suites.lab.prove.published.stand_ins import WHOLE, stand_in
from ethos_hil.suites.lab.prove.published.stream_archive import CompiledStream

VERSION = "5.0.0"
SYSTEMS = Path(__file__).with_name("systems.ini")
_SOURCES = Path(__file__).with_name("sources.toml")
_MOST_NETWORK = 64 << 20


@cache
def network_digests() -> Mapping[str, str]:
    """Return the SHA-256 of each network's file that ran, by short name."""
    return dict(tomllib.loads(_SOURCES.read_text("utf-8"))["networks"])


def networks_in(folder: Path) -> dict[str, bytes]:
    """Return those of the published networks that are in a folder, under any file name.

    Raises:
        UsageError: the folder cannot be read, or has none of them.
    """
    wanted = {digest: name for name, digest in network_digests().items()}
    networks: dict[str, bytes] = {}
    try:
        for path in sorted(folder.glob("*.tflite")):
            if path.stat().st_size <= _MOST_NETWORK:
                data = path.read_bytes()
                name = wanted.get(hashlib.sha256(data).hexdigest())
                if name is not None:
                    networks[name] = data
    except OSError as error:
        raise UsageError(f"--networks {folder} cannot be read: {error.strerror}") from error
    if not networks:
        raise UsageError(
            f"--networks {folder} has none of the published networks",
            hint=f"they are {', '.join(network_digests())}; sources.toml has their SHA-256",
        )
    return networks


def environment(root: Path | None, reporter: Reporter) -> VersionEnvironment:
    """Return the environment of the version; it is installed if there is none. Raises ToolError, PipFailed."""
    return KeptEnvironments(root).get(VELA, VERSION, reporter)


def compiled(
    points: Iterable[PublishedPoint], networks: Mapping[str, bytes], place: VersionEnvironment, reporter: Reporter
) -> list[CompiledStream]:
    """Compile the stream of each point. What is neither found nor has a stand-in is left out.

    Raises:
        ToolError: Vela's process cannot be started.
        CompileError: Vela refuses a network.
    """
    wanted = {point.stream: point for point in points if point.network in networks or _has_stand_in(point.network)}
    tool = NativeTool("vela", "Vela", VELA, path=place.alone, version=place.version)
    data: dict[str, bytes | None] = {}
    streams = []
    reporter.stage(f"Compiling {len(wanted)} command streams with {VELA} {place.version}")
    try:
        for done, point in enumerate(sorted(wanted.values(), key=lambda point: point.network)):
            reporter.step(done, len(wanted))
            if point.network not in data:
                data = {point.network: networks.get(point.network) or stand_in(point.network)}
            network = data[point.network]
            assert network is not None, point
            streams.append(_compile(tool, point, network, is_stand_in=point.network not in networks))
    finally:
        tool.stop()
    return streams


def _has_stand_in(network: str) -> bool:
    return network in WHOLE or "-" in network


def _compile(tool: NativeTool, point: PublishedPoint, network: bytes, *, is_stand_in: bool) -> CompiledStream:
    with tempfile.TemporaryDirectory(prefix="ethos-hil-") as name:
        folder = Path(name)
        path = folder / "net.tflite"
        path.write_bytes(network)
        arguments = [
            f"--accelerator-config={point.npu}", f"--config={SHIPPED}", f"--config={SYSTEMS}",
            f"--system-config={point.system}", f"--memory-mode={point.memory_mode}", "--output-format=tflite",
            f"--output-dir={folder}", *DEBUG_FLAGS, str(path),
        ]  # fmt: skip
        answer = tool.call({"arguments": arguments})
        if answer.header["status"]:
            raise CompileError(f"Vela {tool.version} on {point.stream}: {' '.join(answer.listing.split())[-300:]}")
        return _read(point, folder, tool.version, is_stand_in)


def _read(point: PublishedPoint, folder: Path, version: str, is_stand_in: bool) -> CompiledStream:
    data = (folder / "net_vela.tflite").read_bytes()
    operators = read_tflite(data, point.stream)
    if len(operators.networks) != 1:
        raise CompileError(f"Vela {version} made {len(operators.networks)} parts of {point.stream}, expected 1")
    network = operators.networks[0]
    perf = read_tables((folder / "net_debug.xml").read_text("utf-8"))["perf"]
    with next(folder.glob("net_summary_*.csv")).open(newline="") as file:
        total = {key.strip(): value for key, value in next(csv.DictReader(file)).items()}["cycles_total"]
    return CompiledStream(
        point.network, point.npu, point.memory_mode, point.system, version, hashlib.sha256(data).hexdigest(),
        is_stand_in, int(total), sum(int(row["npu_cycles"]) for row in perf), len(network.weights), network.stream,
    )  # fmt: skip
