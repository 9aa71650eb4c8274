"""Protects the timing model: its inputs against Vela's, its arithmetic by hand, and the invariants of its figures."""

from __future__ import annotations

import configparser
import dataclasses
from pathlib import Path

import numpy as np
import pytest

from ethos_hil.base.npu.ethos_u import FAMILIES, EthosU
from ethos_hil.base.npu.family import Family, OutputRatesU55
from ethos_hil.base.npu.u85 import U85
from ethos_hil.harness.npu.decode.waits import Waits
from ethos_hil.harness.npu.isa.operations import Convolution
from ethos_hil.harness.npu.tests.test_hazards import network
from ethos_hil.harness.npu.timing import timing_model
from ethos_hil.harness.npu.timing.memory_system import MODES, memory_system
from ethos_hil.harness.npu.timing.timing_model import Timing
from ethos_hil.harness.testing.compiled_graph import CompiledGraph, compile_graph
from ethos_hil.lowering.testing.tosa_graph import Graph
from ethos_hil.lowering.vela.ini import VelaIni

NPUS = ("ethos-u55-128", "ethos-u65-512", "ethos-u85-256")


@pytest.fixture(scope="module", params=NPUS)
def compiled(request: pytest.FixtureRequest) -> CompiledGraph:
    return compile_graph(network(), request.param, mode="Shared_Sram")


def timed(compiled: CompiledGraph, ports: dict[int, int] | None = None) -> Timing:
    return compiled.program().timing({0: 1} if ports is None else ports)


def convolution(
    npu: str, *, out: int = 16, kernel: int = 1, size: int = 8, depth: int = 32
) -> tuple[Convolution, Timing]:
    """The one convolution of a program, and the program's timing in Sram_Only."""
    graph = Graph()
    weights = np.random.default_rng(0).integers(-127, 128, (out, kernel, kernel, depth))
    sums = graph.conv(graph.input((1, size, size, depth)), weights, np.zeros(out))
    compiled = compile_graph(graph.output(graph.rescale(sums, 0.01)).serialize(), npu, mode="Sram_Only")
    program = compiled.program()
    (op,) = [op for op in program.ops if isinstance(op, Convolution)]
    return op, program.timing({})


def velas_ini() -> configparser.ConfigParser:
    import ethosu.config_files

    reader = configparser.ConfigParser()
    assert reader.read(Path(ethosu.config_files.__path__[0]) / "Arm/vela.ini")
    return reader


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_memories_are_those_of_velas_system_configuration(family: Family) -> None:
    reader = velas_ini()
    system = family.system
    assert set(family.clocks) == {
        name.removeprefix("System_Config.") for name in reader if f".{family.system_prefix}" in name
    }
    assert all(float(reader[f"System_Config.{name}"]["core_clock"]) == clock for name, clock in family.clocks.items())
    section = reader[f"System_Config.{system.name}"]
    assert float(section["core_clock"]) == system.clock
    for number, port in enumerate(system.ports):
        memory = section[f"axi{number}_port"]
        assert port.ports == int(section.get(f"{memory}_ports_used", "1"))
        assert port.rate == system.beat * port.ports * float(section[f"{memory}_clock_scale"])
        figures = ("burst_length", "read_latency", "write_latency", "max_reads", "max_writes")
        values = dict(zip(figures, map(int, (section[f"{memory}_{figure}"] for figure in figures)), strict=True))
        adapted = family.adapted.get((system.name, number), {})
        for figure, name in zip(figures, ("burst", "read_latency", "write_latency", "reads", "writes"), strict=True):
            here, there = adapted.get(name, (values[figure], values[figure]))
            assert (values[figure], getattr(port, name)) == (here, there)


@pytest.mark.parametrize("npu", EthosU.usual(), ids=str)
def test_memories_follow_a_system_configuration(npu: EthosU) -> None:
    """The default ones are what is read from the file, and a slower one costs more."""
    default = npu.family.system
    read = VelaIni.shipped().system(default.name, npu)
    assert memory_system(read, npu.family) == default
    slow = dataclasses.replace(read, axi1=dataclasses.replace(read.axi1, clock_scale=read.axi1.clock_scale / 100))
    program = compile_graph(dense_layers(1.0), npu.name, mode="Shared_Sram").program()
    cycles = program.timing({0: 1}).cycles
    assert program.timing({0: 1}, default).cycles == cycles
    assert program.timing({0: 1}, memory_system(slow, npu.family)).cycles > 5 * cycles


@pytest.mark.parametrize("mode", MODES)
def test_memory_modes_are_velas(mode: str) -> None:
    reader = velas_ini()
    areas = [reader[f"Memory_Mode.{mode}"][f"{area}_mem_area"] for area in ("const", "arena", "cache")]
    assert [MODES[mode].get(region, 0) for region in range(3)] == [int(area[-1]) for area in areas]


@pytest.mark.parametrize("configuration", EthosU.all(), ids=str)
def test_no_npu_multiplies_faster_than_its_macs(configuration: EthosU) -> None:
    """A convolution that fills the NPU comes close to the limit."""
    op, result = convolution(configuration.name, out=256, kernel=3, size=34, depth=128)
    ideal = op.ofm.elements * 9 * 128 / configuration.macs
    assert ideal <= result.events[timing_model.MAC_ACTIVE] < 1.35 * ideal


@pytest.mark.parametrize("configuration", [c for c in EthosU.all() if c.family.has_shram], ids=str)
def test_output_rates_are_velas(configuration: EthosU) -> None:
    from ethosu.vela.architecture_features import Accelerator, ArchitectureFeatures

    features = ArchitectureFeatures.__new__(ArchitectureFeatures)
    features._generate_output_perf_tables(Accelerator(configuration.name))
    rates = configuration.size.output
    assert isinstance(rates, OutputRatesU55)
    unary32, binary32, product32, product, _, total, maximum, other = features.output_cycles_per_elem
    assert (rates.unary32, rates.binary32, rates.product32, rates.product) == (unary32, binary32, product32, product)
    assert (rates.total, rates.maximum, rates.other) == (total, maximum, other)
    assert rates.look_up == features.activation_cycles_per_elem[0]


@pytest.mark.parametrize(
    ("npu", "expected"),
    [
        # 64 positions in micro-blocks of 1x1, 2 or 4 slices of channels, 4 cycles a position for 32 IFM channels.
        ("ethos-u55-32", 64 * 4 * 4),
        ("ethos-u55-64", 64 * 2 * 4),
        ("ethos-u55-128", 32 * 2 * 4),
        ("ethos-u55-256", 16 * 2 * 4),
        # Each of two cores has 8 channels.
        ("ethos-u65-512", 16 * 1 * 4),
    ],
)
def test_mac_cycles_by_hand(npu: str, expected: int) -> None:
    _, result = convolution(npu)
    assert result.events[timing_model.MAC_ACTIVE] == expected


def test_waiting_for_everything_takes_longer(compiled: CompiledGraph) -> None:
    program = compiled.program()
    ported = {0: 1}
    strictly = timing_model.model(program.ops, program.configuration, ported)
    freely = timing_model.model(
        program.ops, program.configuration, ported, {op.offset: Waits(blocks=3) for op in program.ops}
    )
    assert freely.cycles < timed(compiled).cycles <= strictly.cycles
    assert all(record.cycles > 0 for record in strictly.ops)
    assert sum(record.cycles for record in freely.ops) == freely.cycles


def test_a_slower_memory_takes_longer_and_moves_the_same_bytes(compiled: CompiledGraph) -> None:
    near, far = timed(compiled, {}), timed(compiled, {0: 1, 1: 1})
    assert near.cycles < far.cycles
    for events in (timing_model.AXI_READ_BEATS, timing_model.AXI_WRITE_BEATS):
        assert near.events[events[1]] == 0 == far.events[events[0]]
        assert near.events[events[0]] == far.events[events[1]] > 0


def test_the_published_run_of_the_fvp() -> None:
    """ExecuTorch's pruning example (examples/arm/pruning_minimal_example.ipynb): three dense layers on ethos-u85-128.

    Published for before and after pruning: 97,000 to 99,000 and 22,000 cycles in total, 8,000 of multiplying in both,
    74,000 and 17,000 of decoding weights, 32,000 and 3,000 beats to read 507 and 46 KiB of weights. The weights here
    are random, 479 KiB when dense. The latency of its memory is not stated; with 500 cycles no buffer of that NPU could
    read so much in the time, so it is taken to be 250, that of Ethos_U85_SYS_DRAM_Low's adapters.
    """
    sram, other = U85.system.ports
    memories = dataclasses.replace(
        U85.system, ports=(sram, dataclasses.replace(other, read_latency=250, write_latency=125))
    )
    dense, sparse = (
        compile_graph(dense_layers(density), "ethos-u85-128", mode="Shared_Sram") for density in (1.0, 0.05)
    )
    expected = ((98e3, 8e3, 74e3, 32e3 / 507), (22e3, 8e3, 17e3, 3e3 / 46))
    for compiled, (cycles, multiplying, decoding, beats) in zip((dense, sparse), expected, strict=True):
        result = compiled.program().timing({0: 1}, memories)
        assert result.cycles == pytest.approx(cycles, rel=0.15)
        assert result.events[timing_model.MAC_ACTIVE] == pytest.approx(multiplying, rel=0.1)
        assert result.events[timing_model.DECODER_ACTIVE] == pytest.approx(decoding, rel=0.12)
        assert result.events[timing_model.AXI_READ_BEATS[1]] == pytest.approx(
            beats * compiled.weights.size / 1024, rel=0.1
        )


def dense_layers(density: float) -> bytes:
    """Return layers 784 - 512 - 256 - 10 with rectifiers between; `density` is the share of weights other than zero."""
    rng = np.random.default_rng(0)
    graph = Graph()
    value = graph.input((1, 1, 1, 784))
    for depth, out in ((784, 512), (512, 256), (256, 10)):
        weights = np.clip(np.round(rng.normal(0, 32, (out, 1, 1, depth))), -127, 127)
        sums = graph.conv(value, weights.astype(int) * (rng.random(weights.shape) < density), np.zeros(out))
        value = graph.clamp(graph.rescale(sums, 0.002), 0, 127)
    return graph.output(value).serialize()
