"""The options that a question is made of, each said once: its help, its bounds, its command-line name, an example."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ethos_hil.base import byte_size
from ethos_hil.base.dataclasses import dataclass, field
from ethos_hil.base.field_option import OPTION, FieldOption, option, parse_part
from ethos_hil.base.npu.ethos_u import EthosU

if TYPE_CHECKING:
    import numpy as np

    InputSet = tuple[np.ndarray, ...]

Scheme = Literal["a8w8", "a16w8"]
DEFAULT_NPU = "ethos-u55-128"
CPU_WORDS = CPU_FLOAT, CPU_BESIDE, CPU_ALONE = "float", "cortex-m", "cortex-m-only"
DEFAULT_TARGET = "virtual"
NOWHERE = "none"
"""The target of a question that is only compiled."""
MOST_EXECUTIONS = 10_000_000
"""Executions in a run, of all input sets together. The harness keeps their outputs in memory."""
MOST_SECONDS = 10_000_000
"""Four months: the longest time limit of a run."""
MOST_ARENA = 1 << 32
"""Bytes: Vela's own limit of the arena's cache."""
PMU_EVENTS = (
    "npu_active", "mac_active", "output_active", "weight_decoder_active", "port0_read_beats", "port0_write_beats",
    "port1_read_beats", "port1_write_beats",
)  # fmt: skip
"""Events of the NPU's PMU, as Arm's core driver calls them."""
DEFAULT_EVENTS = PMU_EVENTS[:4]
ALL_EVENTS = "all"
PROGRAM_SUFFIXES = (".pte", ".bpte")
"""Endings of the names of programs that are compiled already."""
ARRAYS = ".npz"
"""The ending of the name of an archive of arrays."""


class LoadedModel(Protocol):
    """A model that is loaded already, such as `ethos_hil.lowering.model.torch_model.TorchModel`."""

    @property
    def label(self) -> str:
        """Its name in records."""


class OptionGroup:
    """Fields that carry an `FieldOption` each."""

    @property
    def given(self) -> tuple[str, ...]:
        """The names of the fields that do not have their defaults."""
        return tuple(
            name for name in OPTIONS if name in DEFAULTS and getattr(self, name, DEFAULTS[name]) != DEFAULTS[name]
        )

    def flags(self, names: Collection[str]) -> tuple[str, ...]:
        """Return the command-line names of those fields, among some, that do not have their defaults."""
        return tuple(OPTIONS[name].flag(name) for name in self.given if name in names)


@dataclass(frozen=True, kw_only=True)
class ModelOptions(OptionGroup):
    """What a question is about: a model, how it is quantised, and what of it stays on the CPU."""

    model: str | LoadedModel = field(
        kw_only=False,
        metadata={
            OPTION: FieldOption(
                "file.py:function or package.module:function, returning (module, example_inputs) or "
                "(module, example_inputs, calibration_inputs), or a dictionary of these by method name; a .pt2; a "
                ".pte; or a .bpte, which has inputs and expected outputs.",
                metavar="MODEL",
                example="net.py:net",
                in_python="Or a float torch.nn.Module, a module quantised with PT2E, or an ExportedProgram.",
            )
        },
    )
    ptd: tuple[str, ...] = option(
        (),
        help="A .ptd that belongs to a .pte: ExecuTorch writes one where weights or commands are outside of the "
        "program. May be repeated.",
        many=True,
        metavar="FILE",
        example=("dram.ptd",),
        content=True,
    )
    method: str | None = option(
        None,
        help="The method to run, in a program with several. Default: forward, or the first.",
        metavar="NAME",
        example="encode",
    )
    dim: tuple[str, ...] = option(
        (),
        help="Give a dimension that a .pt2 leaves free (dynamic_shapes) this size: batch=4, or x[1]=320 for the second "
        "one of input x. Default: the size of its example. May be repeated.",
        many=True,
        metavar="NAME=SIZE",
        example=("batch=4",),
    )
    scheme: Scheme = option(
        "a8w8",
        help="Bits of activations and weights, where a model is quantised here.",
        metavar="a8w8|a16w8",
        choices=("a8w8", "a16w8"),
        example="a16w8",
    )
    calibrate: str | Sequence[tuple[Any, ...]] | None = option(
        None,
        help="Inputs to calibrate the quantisation with: an .npz as for --inputs, or a function that returns a list of "
        "input tuples. Default: the model's own, or its example.",
        metavar="X.npz|file.py:function",
        example="calibration.npz",
        content=True,
        in_python="Or the input sets, in the forms of `inputs`.",
    )
    int16: tuple[str, ...] = option(
        (),
        help="Give the activations of this module 16 bits, e.g. head or blocks.3; repeatable.",
        many=True,
        metavar="MODULE",
        example=("head",),
    )
    quantizer: str | Callable[[Any], Any] | None = option(
        None,
        help="Quantise with what this function returns: it takes upstream's compile spec and returns a configured "
        "EthosUQuantizer, or another quantizer of torchao.",
        metavar="file.py:function",
        example="quantizers.py:mine",
        in_python="Or the function itself.",
    )
    leave: tuple[str, ...] = option(
        (),
        help="Leave this to the CPU: an operator (aten.sigmoid), a line of the model (net.py:12) or a module (head.0). "
        "May be repeated.",
        many=True,
        metavar="WHAT",
        example=("aten.sigmoid",),
    )
    trust_model: bool = option(
        False,
        help="Load a .pt2 that has more than data in it. Such a file can run any code on this machine.",
        kind=bool,
        example=True,
    )


@dataclass(frozen=True, kw_only=True)
class CompileOptions(OptionGroup):
    """What a question is compiled for: the NPU, the memories around it, and what Vela is asked beyond that."""

    npu: str = option(
        DEFAULT_NPU,
        help="NPU to compile for and run on, e.g. ethos-u55-256.",
        otherwise="ethos-u55-128, or the only one of the target",
        example="ethos-u85-256",
        session=True,
    )
    memory_mode: str | None = option(
        None,
        help="Where Vela puts the parts of the program: Shared_Sram, Sram_Only or Dedicated_Sram (or with a limit, as "
        "in Dedicated_Sram_384KB). Default: ExecuTorch's for the NPU.",
        metavar="MODE",
        example="Sram_Only",
        session=True,
    )
    system_config: str | None = option(
        None,
        help="The clock and memories to compile for, such as Ethos_U55_Deep_Embedded; modelled cycles follow them. "
        "Default: ExecuTorch's for the NPU.",
        metavar="NAME",
        example="Ethos_U55_Deep_Embedded",
        panel="Vela",
    )
    vela_ini: Path | None = option(
        None,
        help="Vela's configuration file, with systems and memory modes of your own. Default: Arm/vela.ini.",
        kind=Path,
        metavar="FILE",
        example=Path("vela.ini"),
        content=True,
        panel="Vela",
    )
    optimise: str | None = option(
        None,
        help="Performance (Vela's default), or Size for the least memory.",
        metavar="GOAL",
        choices=("Performance", "Size"),
        example="Size",
        panel="Vela",
    )
    arena_cache_size: int | None = option(
        None,
        help="What the arena, or its cache in SRAM, may take: 384KiB, 262144.",
        kind=int,
        metavar="SIZE",
        least=0,
        most=MOST_ARENA,
        parse=byte_size.parse,
        example=393216,
        panel="Vela",
    )
    vela_flags: tuple[str, ...] = option(
        (),
        help="Any other argument of Vela, as in --vela-flag=--disable-cascading. May be repeated.",
        many=True,
        flags=("--vela-flag",),
        metavar="FLAG",
        example=("--disable-cascading",),
        panel="Vela",
    )
    cpu: str = option(
        CPU_FLOAT,
        help="What runs on the CPU: what the NPU leaves, in float; the same in 8 bits, with ExecuTorch's Cortex-M "
        "backend (cortex-m); or all of the model, with that backend (cortex-m-only).",
        choices=CPU_WORDS,
        metavar="|".join(CPU_WORDS),
        example=CPU_BESIDE,
    )
    as_upstream: bool = option(
        False,
        help="Repair none of Vela's known defects: the program is byte for byte what ExecuTorch alone makes.",
        kind=bool,
        example=True,
    )

    subject: tuple[str, ...] = option(
        (),
        help="Lower with another version of a package, laid over this environment (executorch==1.5.0, "
        "ethos-u-vela==5.2.0), with a wheel or a folder that pip filled (path=nightly.whl), or with another Python and "
        "all that is installed there (python=/path/to/venv/bin/python). May be repeated.",
        many=True,
        flags=("--with",),
        metavar="WHAT",
        example=("executorch==1.5.0",),
        session=True,
    )

    @property
    def asks_vela(self) -> bool:
        """Whether anything is asked of Vela, which a compiled program could contradict."""
        others = ("npu", "cpu", "as_upstream", "subject")
        return any(name not in others for name in self.given if name in GROUPS["compile"])

    @property
    def npu_name(self) -> EthosU:
        """The NPU.

        Raises:
            UsageError: no NPU has this name; the error lists the names.
        """
        return EthosU.parse(self.npu)


@dataclass(frozen=True, kw_only=True)
class LoweringOptions(ModelOptions, CompileOptions):
    """What decides a program: the two groups that lowering takes."""

    @property
    def further(self) -> tuple[str, ...]:
        """What is asked beyond `_IN_KEYS`, "pad_to=8". It is in every key, so that no new option is forgotten there."""
        names = (*GROUPS["model"], *GROUPS["compile"])
        return tuple(f"{name}={getattr(self, name)!r}" for name in self.given if name in names and name not in _IN_KEYS)


_IN_KEYS = frozenset(
    {"method", "scheme", "calibrate", "int16", "quantizer", "leave", "trust_model", "npu", "memory_mode",
     "system_config", "vela_ini", "optimise", "arena_cache_size", "vela_flags", "as_upstream", "subject"}
)  # fmt: skip
"""Fields that the keys of artifacts have in a form of their own, or that are in the loaded model."""


@dataclass(frozen=True, kw_only=True)
class PlaceOptions(OptionGroup):
    """Where a question is answered, and by what rules."""

    target: str = option(
        DEFAULT_TARGET,
        help="Where to run; `ethos-hil doctor` lists what there is.",
        example="corstone-300",
        session=True,
    )
    runner: Path | None = option(
        None,
        help="Run with this arm_executor_runner, by semihosting, not with our firmware.",
        kind=Path,
        metavar="ELF",
        example=Path("arm_executor_runner"),
        content=True,
    )
    strict: bool = option(
        False,
        help="Fail where the NPU's command stream lacks a wait, even if the answer is right.",
        kind=bool,
        flags=("--strict-waits", "--strict"),
        example=True,
        session=True,
    )
    strict_board: bool = option(
        False,
        help="Fail where the program does what a real board may not forgive.",
        kind=bool,
        example=True,
        session=True,
    )
    fast: bool = option(False, help="Let an FVP leave out timing; no cycles are reported.", kind=bool, example=True)
    clock: str | None = option(
        None,
        help="The NPU's clock that cycles become milliseconds with: 400MHz, 500MHz/1GHz for NPU and CPU, or a part "
        "such as alif-e8-hp, ek-ra8p1 or mps4-fi101 (docs/latency.md). Cycles stay as they are.",
        metavar="CLOCK",
        otherwise="that of Vela's system configuration",
        example="400MHz",
    )


@dataclass(frozen=True, kw_only=True)
class JudgeOptions(OptionGroup):
    """How the answer is judged: by which inputs, against what, within which limits."""

    inputs: Path | tuple[InputSet, ...] | None = option(
        None,
        help="One array per input, in order; one more leading axis than the input gives several input sets. "
        "Default: the model's example inputs.",
        kind=Path,
        metavar="X.npz",
        example=Path("inputs.npz"),
        content=True,
        in_python="Or a tensor or an array; a tuple of these, one for each argument of forward; or a list of such "
        "tuples, to run several input sets in one boot. A module in memory needs inputs.",
    )
    repeat: int | None = option(
        None,
        help="Executions of each input set.",
        kind=int,
        metavar="N",
        least=1,
        most=MOST_EXECUTIONS,
        otherwise="what the model asks for, usually 1",
        example=3,
    )
    expected: Path | tuple[InputSet, ...] | None = option(
        None,
        help="Compare the outputs with these too: one array per output, by its name or in order; one more leading axis "
        "for several input sets. For equality, unless --atol or --rtol is given.",
        kind=Path,
        metavar="Y.npz",
        example=Path("expected.npz"),
        content=True,
        in_python="Or the outputs, in the forms of `inputs`.",
    )
    atol: float = option(
        0.0,
        help="How far a float may be from what is expected. Integers must be equal.",
        kind=float,
        metavar="X",
        least=0,
        example=0.01,
    )
    rtol: float = option(
        0.0,
        help="The same, as a fraction of the expected value; both are added.",
        kind=float,
        metavar="X",
        least=0,
        example=0.001,
    )
    min_sqnr: float | None = option(
        None,
        help="Fail where an output's SQNR against the float model in PyTorch is below this number of dB.",
        kind=float,
        metavar="DB",
        example=20.0,
    )
    allow_cpu_only: bool = option(
        False, help="Accept a program of which nothing is on the NPU.", kind=bool, example=True
    )
    require_delegated: bool = option(
        False,
        help="Fail if an operator is on the CPU; conversions of inputs and outputs may be.",
        kind=bool,
        example=True,
    )
    max_cpu_ops: int | None = option(
        None,
        help="Fail if more than N operators are on the CPU.",
        kind=int,
        least=0,
        metavar="N",
        example=2,
    )
    min_npu_share: float | None = option(
        None,
        help="Fail if the NPU computes less than this part of the multiplications, 90% or 0.9.",
        kind=float,
        metavar="PART",
        least=0,
        most=1,
        parse=parse_part,
        example=0.9,
    )
    allow_unverified: bool = option(
        False,
        help="Exit status 0 although nothing says what is right, as for a foreign .pte.",
        kind=bool,
        example=True,
    )
    timeout: float = option(
        120.0,
        help="Limit for the run on the target.",
        kind=float,
        metavar="SECONDS",
        least=0.001,
        most=MOST_SECONDS,
        example=60.0,
    )
    profile: bool = option(
        False, help="Account for every cycle, by operation, as `ethos-hil profile` does.", kind=bool, example=True
    )
    found_by: str | None = option(
        None,
        help="How cycles are found. shares: the target says what each operation takes. prefix: the target runs more "
        "and more of the program, and differences count. Default: shares where the target can, else prefix.",
        metavar="shares|prefix",
        choices=("shares", "prefix"),
        example="prefix",
    )
    events: tuple[str, ...] = option(
        DEFAULT_EVENTS,
        help=f"A PMU event to count for each operation, with prefix: {', '.join(PMU_EVENTS)}, or {ALL_EVENTS}. May be "
        "repeated. Default: the first four.",
        many=True,
        metavar="EVENT",
        choices=(*PMU_EVENTS, ALL_EVENTS),
        example=("npu_active",),
    )


def _groups() -> Iterator[tuple[str, dict[str, dataclasses.Field[Any]]]]:
    for group, cls in (("model", ModelOptions), ("compile", CompileOptions), ("place", PlaceOptions),
                       ("judge", JudgeOptions)):  # fmt: skip
        yield group, {item.name: item for item in dataclasses.fields(cls)}


GROUPS: Mapping[str, tuple[str, ...]] = {group: tuple(items) for group, items in _groups()}
"""The names of the fields of each group, in order."""
OPTIONS: Mapping[str, FieldOption] = {
    name: item.metadata[OPTION] for _, items in _groups() for name, item in items.items()
}
"""How each field is asked for."""
DEFAULTS: Mapping[str, Any] = {
    name: item.default for _, items in _groups() for name, item in items.items() if name != "model"
}
ANNOTATIONS: Mapping[str, str] = {name: str(item.type) for _, items in _groups() for name, item in items.items()}
"""The type of each field, as it is written."""
