"""The parameters that `-C name=value` can set, and how each is treated.

A parameter is honoured; ignored, when it cannot change what the software sees here; or refused, when the run would not
be the one asked for. A name that is not in the table is an error, because ignoring it silently would be a guess.
"""

from __future__ import annotations

import difflib
import enum
import re
from collections.abc import Mapping

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.harness.socs.registry import FvpModel

MAX_COMMAND_LINE = 255
"""Characters of a semihosting command line; FVPs cut off longer ones (upstream's runner_utils.py)."""


class Treatment(enum.Enum):
    """How a parameter is treated."""

    HONOURED = "honoured"
    IGNORED = "ignored"
    REFUSED = "refused"


@dataclass(frozen=True)
class Parameter:
    """A row of the table.

    Attributes:
        pattern: its name; `{cpu}`, `{npu}` and `{board}` stand for the FVP's instance paths, `#` for a digit.
        kind: the type of its values: bool, int or str.
        default: the value when it is not set, as text.
        treatment: how it is treated.
        note: what it does here, why it is ignored, or why it is refused.
        socs: the systems on chip that have it; () for all.
    """

    pattern: str
    kind: type[bool] | type[int] | type[str]
    default: str
    treatment: Treatment
    note: str
    socs: tuple[str, ...] = ()

    def on(self, model: FvpModel) -> bool:
        """Return whether `model` has it."""
        return not self.socs or model.soc.name in self.socs

    def name(self, model: FvpModel) -> str:
        """Return its name on `model`, with `#` kept."""
        return self.pattern.format(cpu=model.fvp.cpu_path, npu=model.fvp.npu_path, board=model.fvp.board_path)

    def matches(self, name: str, model: FvpModel) -> bool:
        """Return whether `name` is this parameter on `model`."""
        if not self.on(model):
            return False
        pattern = re.escape(self.name(model)).replace(re.escape("#"), "[0-9]")
        return re.fullmatch(pattern, name) is not None

    def value(self, text: str) -> bool | int | str:
        """Return `text` as a value of this type. Raises ValueError, whose text names the type."""
        if self.kind is str:
            return text
        if self.kind is bool:
            if text.lower() in ("1", "true"):
                return True
            if text.lower() in ("0", "false"):
                return False
            raise ValueError("0 or 1")
        try:
            return int(text, 0)
        except ValueError:
            raise ValueError("a number") from None


_HONOURED, _IGNORED, _REFUSED = Treatment.HONOURED, Treatment.IGNORED, Treatment.REFUSED
_310, _320 = "corstone-310", "corstone-320"

PARAMETERS = (
    Parameter("{npu}.num_macs", int, "", _HONOURED, "MACs of the NPU; default 256, and 128 for the Corstone-300's U55"),
    Parameter(
        "{npu}.extra_args", str, "", _HONOURED,
        "`--fast` changes nothing, the NPU is always functional; other words are refused",
    ),
    Parameter("{npu}.diagnostics", int, "0", _IGNORED, "no messages from inside the NPU"),
    Parameter("{cpu}.semihosting-enable", bool, "0", _HONOURED, "without it BKPT 0xAB is a fault, as on a board"),
    Parameter(
        "{cpu}.semihosting-cmd_line", str, "", _HONOURED,
        f"what SYS_GET_CMDLINE answers; more than {MAX_COMMAND_LINE} characters, which an FVP cuts off, are refused",
    ),
    Parameter("{cpu}.semihosting-cwd", str, "", _HONOURED, "folder that relative file names start from"),
    Parameter("{cpu}.semihosting-heap_base", int, "0x0", _HONOURED, "answer to SYS_HEAPINFO, word 0"),
    Parameter("{cpu}.semihosting-heap_limit", int, "0x20700000", _HONOURED, "answer to SYS_HEAPINFO, word 1"),
    Parameter("{cpu}.semihosting-stack_base", int, "0x20800000", _HONOURED, "answer to SYS_HEAPINFO, word 2"),
    Parameter("{cpu}.semihosting-stack_limit", int, "0x20700000", _HONOURED, "answer to SYS_HEAPINFO, word 3"),
    Parameter("{cpu}.semihosting-Thumb_SVC", int, "0xab", _IGNORED, "semihosting is BKPT 0xAB on M-profile"),
    Parameter("{board}.uart0.out_file", str, "", _HONOURED, "`-` is stdout; empty: discarded"),
    Parameter("{board}.uart0.unbuffered_output", bool, "0", _HONOURED, "output is always unbuffered"),
    Parameter("{board}.uart0.shutdown_on_eot", bool, "0", _HONOURED, "byte 0x04 ends the simulation"),
    Parameter("{board}.uart0.shutdown_tag", str, "", _HONOURED, "this text ends the simulation"),
    Parameter("{board}.uart0.in_file", str, "", _REFUSED, "nothing is connected to the UART's input"),
    Parameter("{board}.uart0.untimed_fifos", bool, "0", _IGNORED, "the UART takes no time"),
    Parameter("{board}.uart#.out_file", str, "", _IGNORED, "only UART0 is connected"),
    Parameter("{board}.uart#.unbuffered_output", bool, "0", _IGNORED, "only UART0 is connected"),
    Parameter("{board}.uart#.shutdown_on_eot", bool, "0", _IGNORED, "only UART0 is connected"),
    Parameter("{board}.uart#.shutdown_tag", str, "", _IGNORED, "only UART0 is connected"),
    Parameter("{board}.telnetterminal#.start_telnet", bool, "1", _IGNORED, "no terminal is opened, no port is used"),
    Parameter("{board}.telnetterminal#.start_port", int, "5000", _IGNORED, "no port is used"),
    Parameter("{board}.telnetterminal#.mode", str, "telnet", _IGNORED, "no port is used"),
    Parameter("{board}.telnetterminal#.quiet", bool, "0", _IGNORED, "no port is used"),
    Parameter("{board}.visualisation.disable-visualisation", bool, "0", _IGNORED, "there is no window"),
    Parameter("{board}.visualisation.rate_limit-enable", bool, "1", _IGNORED, "there is no window"),
    Parameter("vis_hdlcd.disable_visualisation", bool, "0", _IGNORED, "there is no window", (_320,)),
    Parameter("{cpu}.CFGITCMSZ", int, "15", _IGNORED, "the ITCM is as large as QEMU's; an image beyond it is refused"),
    Parameter("{cpu}.CFGDTCMSZ", int, "15", _IGNORED, "the DTCM is as large as QEMU's; an image beyond it is refused"),
    Parameter("{board}.FPGA_SRAM_SIZE", int, "2", _IGNORED, "memories are QEMU's; an image beyond them is refused"),
    Parameter("{cpu}.MPU_S", int, "8", _IGNORED, "the processor is QEMU's Cortex-M55"),
    Parameter("{cpu}.MPU_NS", int, "8", _IGNORED, "the processor is QEMU's Cortex-M55"),
    Parameter("{cpu}.SAU", int, "8", _IGNORED, "the processor is QEMU's Cortex-M55"),
    Parameter("{cpu}.FPU", bool, "1", _IGNORED, "the processor is QEMU's Cortex-M55, which has one"),
    Parameter("{cpu}.MVE", int, "2", _IGNORED, "the processor is QEMU's Cortex-M55, which has it all"),
    Parameter("{cpu}.CFGPACBTI", bool, "0", _IGNORED, "the processor is QEMU's Cortex-M55, without it", (_310, _320)),
    Parameter("{cpu}.INITSVTOR", int, "", _HONOURED, "where the vector table is at reset"),
    Parameter(
        "mps4_board.subsystem.iotss3_systemcontrol.INITSVTOR_RST", int, "", _HONOURED,
        "where the vector table is at reset", (_320,),
    ),
    Parameter(
        "mps3_board.sse300.iotss3_systemcontrol.INITSVTOR_RST", int, "", _HONOURED,
        "where the vector table is at reset", (_310,),
    ),
    Parameter("{board}.DISABLE_GATING", bool, "0", _IGNORED, "no memory is gated by the protection controllers"),
    Parameter("core_clk.mul", int, "25000000", _IGNORED, "instructions take no modelled time"),
    Parameter("core_clk.div", int, "1", _IGNORED, "instructions take no modelled time"),
    Parameter("{board}.smsc_91c111.enabled", bool, "0", _IGNORED, "the board has no network"),
    Parameter("{board}.hostbridge.userNetworking", bool, "0", _IGNORED, "the board has no network"),
    Parameter("{board}.hostbridge.userNetPorts", str, "", _REFUSED, "the board has no network"),
    Parameter("{board}.v_path", str, "", _REFUSED, "there are no virtual streaming interfaces"),
    Parameter("{board}.ddr.read_latency", int, "0", _REFUSED, "memories have no timing"),
    Parameter("{board}.ddr.write_latency", int, "0", _REFUSED, "memories have no timing"),
    Parameter("{board}.sram.read_latency", int, "0", _REFUSED, "memories have no timing"),
    Parameter("{board}.sram.write_latency", int, "0", _REFUSED, "memories have no timing"),
)  # fmt: skip
"""The first row whose pattern matches applies. Where no public source names a default, it is ours."""

_DIGITS = {"{board}.uart": "125", "{board}.telnetterminal": "0125"}
"""What `#` stands for in lists, as in those of real FVPs. UART 0 has rows of its own."""
_TYPES = {bool: "bool  ", int: "int   ", str: "string"}


class ParameterError(Exception):
    """A setting that cannot be made. The message says which, why, and what to do."""


def find(name: str, model: FvpModel) -> Parameter:
    """Return the row for `name`. Raises ParameterError, which suggests the nearest name."""
    row = next((row for row in PARAMETERS if row.matches(name, model)), None)
    if row is not None:
        return row
    known = [row.name(model).replace("#", digit) for row in PARAMETERS if row.on(model)
             for digit in ("0125" if "#" in row.pattern else "0")]  # fmt: skip
    near = difflib.get_close_matches(name, known, 1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else "--list-params lists them"
    raise ParameterError(f"{model.fvp.executable} has no parameter {name!r}; {hint}")


def check(settings: Mapping[str, str], model: FvpModel) -> dict[str, bool | int | str]:
    """Return the values of all honoured parameters by pattern, defaults included.

    Args:
        settings: text by full name, quotes removed.
        model: the FVP.

    Raises:
        ParameterError: an unknown or refused parameter, or a value it cannot have.
    """
    values: dict[str, bool | int | str] = {}
    for row in PARAMETERS:
        if row.treatment is _HONOURED and row.on(model) and row.default:
            values[row.pattern] = row.value(row.default)
    for name, text in settings.items():
        row = find(name, model)
        try:
            value = row.value(text)
        except ValueError as error:
            raise ParameterError(f"{name} takes {error}, not {text!r}") from None
        if row.treatment is _REFUSED and text not in ("", row.default):
            raise ParameterError(f"{name} cannot be set to {text!r} on the virtual board: {row.note}")
        if row.treatment is _HONOURED:
            values[row.pattern] = value
    return values


def listing(model: FvpModel) -> str:
    """Return the text that `--list-params` prints, in the FVPs' own form, which `-f` reads."""
    lines = [
        "# Parameters:",
        "# instance.parameter=value       #(type, mode) default = 'def value' : description : [min..max]",
        "#" + 110 * "-",
    ]
    for row in PARAMETERS:
        if row.on(model):
            default = row.default or _of_model(row, model)
            value = f'"{default}"' if row.kind is str else default
            for digit in _DIGITS.get(row.pattern.partition("#")[0], "0"):
                setting = f"{row.name(model).replace('#', digit)}={value}"
                what = f"({_TYPES[row.kind]}, init-time) default = '{default}'"
                lines.append(f"{setting:53} # {what} : {row.treatment.value}: {row.note}")
    return "\n".join(lines) + "\n"


def _of_model(row: Parameter, model: FvpModel) -> str:
    """Return the default of a parameter that depends on the model, or ""."""
    if row.pattern == "{npu}.num_macs":
        return str(model.npu.default_macs)
    return hex(model.soc.boot) if "INITSVTOR" in row.pattern else ""
