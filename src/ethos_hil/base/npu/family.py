"""The words in which a file of this folder describes a family of NPUs, and the sizes that there are of it.

They are data, and no code asks for a family or a size by its name: where code differs, a field here chooses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from ethos_hil.base.dataclasses import dataclass, field

AdapterSettings = tuple[int, int, int, int, int, int, int]
"""What the firmware sets a timing adapter to, in the order of `TimingAdapter` (firmware/npu/timing_adapter.h)."""


@dataclass(frozen=True)
class Port:
    """A memory behind an AXI port.

    Attributes:
        rate: bytes per NPU cycle, both directions together, on average over `window`.
        burst: most bytes that a transaction moves.
        read_latency, write_latency: cycles until the first byte, or the answer.
        reads, writes: transactions that can be under way.
        ports: AXI ports that lead to it.
        window: cycles for which the budget of bytes is: `rate` times as many pass at the bus's speed. 0 for no budget
            ahead.
    """

    rate: float
    burst: int
    read_latency: int
    write_latency: int
    reads: int
    writes: int
    ports: int = 1
    window: int = 0

    def adapter(self, on: int, off: int, words: int) -> AdapterSettings:
        """Return the timing adapter that stands for it. Its budget is `words` of the bus in `on` + `off` cycles."""
        return self.reads, self.writes, self.read_latency, self.write_latency, on, off, words


@dataclass(frozen=True)
class MemorySystem:
    """The memories behind ports 0 and 1.

    Attributes:
        name: Vela's name of the system configuration.
        ports: the memories.
        beat: bytes of a port's data bus.
        clock: of the NPU, in Hz.
    """

    name: str
    ports: tuple[Port, Port]
    beat: int
    clock: float


WEIGHTS_USED = 0.8
"""The part of a read buffer of weights that is under way, as regor's estimator has it for all buffers. Here it holds
for weights alone.
"""


class CommandSet(Enum):
    """A dialect of the command stream (harness/npu/decode)."""

    U55 = "Ethos-U55"
    U65 = "Ethos-U55 with registers for the streams of a second core"
    U85 = "Ethos-U85"


@dataclass(frozen=True)
class OutputRatesU55:
    """Cycles per element of the output stage of an Ethos-U55 or U65."""

    unary32: float
    binary32: float
    product32: float  # MUL with a 32-bit result
    product: float  # MUL, or a 40-bit accumulator
    total: float  # ADD and SUB
    maximum: float
    other: float
    look_up: float


@dataclass(frozen=True)
class OutputRatesU85:
    """Cycles per element of the output stage of an Ethos-U85."""

    bits8: float
    bits16: float
    bits32: float
    bits64: float
    chained32: float  # 32 bits in or out, kept in a chain buffer; or two inputs of 32 bits to fewer
    binary32: float
    straight: float  # the minimum for any output
    turned: float  # the minimum where rows become columns or are reversed


@dataclass(frozen=True)
class ModelError:
    """How far modelled cycles of whole networks are from counted ones, on one family.

    They are those of the published runs on Arm's FVPs that nothing was fitted to, in the memories of those runs
    (docs/npu.md, "Published runs"). An error is the distance of modelled / counted from 1: 2 and 1/2 are both 100 %
    away. Single small operations are further off, and no silicon was compared.
    `python -m ethos_hil.suites.lab published` works the numbers out, and a test compares.

    Attributes:
        runs: how many published runs it is of.
        median, worst: the middle and the largest error: 0.06 is 6 %.
        worst_of: the run with the largest one.
    """

    runs: int
    median: float
    worst: float
    worst_of: str

    def __str__(self) -> str:
        """Return it in words."""
        return f"{self.worst:.0%} at worst, {self.median:.0%} in the median".replace("%", " %")


@dataclass(frozen=True, eq=False)
class Size:
    """One size of a family, as it is synthesised.

    Attributes:
        macs: 8-bit multiply-accumulates per cycle, of all cores.
        config_word: the CONFIG register.
        internal_bytes: internal memory that DMA reaches: one core's SHRAM, or the look-up tables of an Ethos-U85.
        ublock: height, width (positions) and depth (channels) of the OFM micro-block that one core works on in a cycle;
            on Ethos-U85 each operation chooses height and width.
        output: rates of the output stage.
        read_buffers: bytes that can be under way, by what is read: "ifm" (windows of an input), "stream" (an input that
            is read once), "weights", "scales" and "dma". What has no entry has no limit that is known.
        cores: cores, each with its own weights.
        decoders: weight decoders of a core, each with a stream of its own.
        ifm_ublock_depth: IFM channels that one cycle works on.
        lanes: channels that the output stage works on together where it writes bricks. Fitted.
        accumulator_delay: cycles of waiting for accumulators where a block has one micro-block in height and width: of
            32 bits, and wider ones.
        pool_bits: bits of an IFM's element that a pool takes in one go.
        shallow: the depth of the micro-block with which an operation takes at most 32 IFM channels at a time; 0: none.
        ifm_bytes: IFM memory, which keeps channels for the next block of output channels; 0: they are fetched again.
        shares_tables: whether SHRAM has no banks for look-up tables alone, so that operations without a table overwrite
            them.
    """

    macs: int
    config_word: int
    internal_bytes: int
    ublock: tuple[int, int, int]
    output: OutputRatesU55 | OutputRatesU85
    read_buffers: Mapping[str, float]
    cores: int = 1
    decoders: int = 1
    ifm_ublock_depth: int = 8
    lanes: int = 8
    accumulator_delay: tuple[int, int] = (2, 2)
    pool_bits: int = 8
    shallow: int = 0
    ifm_bytes: int = 0
    shares_tables: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class Family:
    """A family of NPUs. Two are equal if they have one name.

    Attributes:
        name: "u55".
        product: the number in CONFIG and in the config words of Vela's payloads, bits 28-31.
        id_word: the ID register.
        sizes: the smallest first.
        usual_macs: the size that tests are compiled for if no other is asked for.
        system: the memories of the system configuration of Arm/vela.ini that EthosUCompileSpec chooses for the family
            (executorch 1.5.1, backends/arm/ethosu/compile_spec.py), with the numbers of its timing adapters.
        memory_mode: EthosUCompileSpec's choice.
        tosa: the extension of TOSA that EthosUCompileSpec chooses: families with one share their TOSA programs.
        clocks: the NPU's clock in Hz in each system configuration of Arm/vela.ini.
        adapted: what timing adapters have otherwise than Arm/vela.ini, by system configuration and port: Vela's number,
            and the adapter's.
        arena_anywhere: whether Vela has a system in which port 1 leads to memory that the NPU can write to.
        several_ports: whether several AXI ports can lead to one memory.
        command_set: the dialect of its command streams.
        kernels, transfers: operations, and DMA transfers, that can be outstanding.
        has_shram: whether operations work in an SHRAM, whose size the config word has in bits 8-15.
        keeps_results: whether an operation can pass its result on inside of the NPU.
        fills_borders: whether Vela fills the rows and columns that a transposed convolution adds by an operation.
        driver: the file of firmware/npu for it, without its ending.
        pmu_base: offset of the PMU's registers.
        event_counters: of the PMU.
        registers: the registers that other families may lack, by offset: the name, and the bits that hold what is
            written.
        channels: STATUS.faulting_channel where it is not as usual, by the prefix of the register that faulted.
        memory_attributes: whether REGIONCFG selects one of MEM_ATTR0 to 3, which name the AXI port. Otherwise the
            values 0 and 1 are port 0 with AXI_LIMIT0 and 1, and 2 and 3 are port 1 with AXI_LIMIT2 and 3.
        adapters: what the firmware sets the timing adapters of ports 0 and 1 to, in numbers of ExecuTorch's
            corstone_utils.cmake.
        dedicated_adapters: the same for the memory mode Dedicated_Sram, where that is something else.
        weights_ahead: whether the first weights are asked for while the operation before still runs.
        least_overlap: the smallest block dependency with which an operation starts before its predecessor's end.
        whole_steps: whether a step of the MAC engine takes an element of the kernel with all IFM channels, or all
            elements with some channels. Otherwise it takes some elements with some channels.
        flat_ublock: whether a micro-block of 2x2 becomes one of 1x4 for convolutions of a single row.
        matmul_channels: IFM channels that matrix products and sums take at a time, by the bits of an element.
        scales_again: whether scales are fetched for every block in height and width.
        held_out: the timing model's error for whole networks; None where it is not known.
        rule_errors: by the rule that decides (harness/npu/timing/rules.py): published runs, median size of their
            errors, the worst error.
    """

    name: str
    product: int
    id_word: int
    sizes: tuple[Size, ...]
    usual_macs: int
    system: MemorySystem
    memory_mode: str
    tosa: str
    clocks: Mapping[str, float]
    command_set: CommandSet
    transfers: int
    driver: str
    pmu_base: int
    event_counters: int
    registers: Mapping[int, tuple[str, int]]
    adapters: tuple[AdapterSettings, AdapterSettings]
    matmul_channels: Mapping[int, int]
    dedicated_adapters: tuple[AdapterSettings, AdapterSettings] | None = None
    kernels: int = 2
    adapted: Mapping[tuple[str, int], Mapping[str, tuple[int, int]]] = field(default_factory=dict)
    channels: Mapping[str, int] = field(default_factory=dict)
    least_overlap: int = 0
    arena_anywhere: bool = True
    several_ports: bool = False
    has_shram: bool = True
    keeps_results: bool = False
    fills_borders: bool = True
    memory_attributes: bool = False
    weights_ahead: bool = True
    whole_steps: bool = False
    flat_ublock: bool = True
    scales_again: bool = False
    held_out: ModelError | None = None
    rule_errors: Mapping[str, tuple[int, float, float]] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The name in text: "Ethos-U55"."""
        return f"Ethos-{self.name.upper()}"

    @property
    def system_prefix(self) -> str:
        """How the names of its system configurations in Arm/vela.ini begin: "Ethos_U55_"."""
        return f"Ethos_{self.name.upper()}_"

    @property
    def suffix(self) -> str:
        """The suffix of tests that are compiled for it: "U55_BI"."""
        return f"{self.name.upper()}_BI"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Family) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__
