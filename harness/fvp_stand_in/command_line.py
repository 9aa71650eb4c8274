"""The FVP's command line, as settings for a run.

The values of `-C` are in `parameters`; all other options are in a table here: for the parser, `--help` and
docs/targets.md.

Sources of the names: Arm's scx_simconfig.h, and public scripts for the limits, `-f`, `-q`, `-T` and the Iris options.
"""

from __future__ import annotations

import difflib
import enum
import getopt
import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import UsageError
from ethos_hil.harness.fvp_stand_in import parameters
from ethos_hil.harness.fvp_stand_in.parameters import MAX_COMMAND_LINE, ParameterError, Treatment
from ethos_hil.harness.socs.registry import FvpModel
from ethos_hil.harness.virtual.guest_files import HeapInfo, Semihosting, says_yes
from ethos_hil.harness.virtual.rules import FOREIGN_BOARD, STRICT_BOARD_VARIABLE, Rule


@dataclass(frozen=True)
class Option:
    """A row of the table.

    Attributes:
        name: the long name, without dashes.
        short: the letter, or "".
        argument: the argument it takes, or "".
        treatment: how it is treated.
        note: what it does here, why it is ignored, or why it is refused.
    """

    name: str
    short: str
    argument: str
    treatment: Treatment
    note: str

    @property
    def spelling(self) -> str:
        """The option as a user would write it."""
        letter = f"-{self.short}, " if self.short else ""
        return f"{letter}--{self.name}" + (f" {self.argument}" if self.argument else "")


_HONOURED, _IGNORED, _REFUSED = Treatment.HONOURED, Treatment.IGNORED, Treatment.REFUSED
_NO_DEBUGGER = "no debugger can attach; QEMU's gdb stub serves the NPU"

OPTIONS = (
    Option("application", "a", "[INST=]FILE", _HONOURED, "the ELF to run; also as a plain argument"),
    Option("data", "d", "[INST=]FILE@ADDRESS", _HONOURED, "bytes to put into memory before the start; repeatable"),
    Option("dump", "", "[INST=]FILE@ADDRESS,SIZE", _HONOURED, "memory to write to a file at the end; repeatable"),
    Option("parameter", "C", "INST.NAME=VALUE", _HONOURED, "set a parameter; repeatable, the last one counts"),
    Option("config-file", "f", "FILE", _HONOURED, "parameters, one a line, `#` starts a comment"),
    Option("timelimit", "T", "SECONDS", _HONOURED, "wall-clock limit of the run"),
    Option("simlimit", "M", "SECONDS", _HONOURED, "the same: the simulated clock is the host's"),
    Option("cyclelimit", "", "CYCLES", _REFUSED, "the processor counts no cycles; use --timelimit"),
    Option("list-params", "l", "", _HONOURED, "print the parameters"),
    Option("help", "h", "", _HONOURED, "print this"),
    Option("version", "", "", _HONOURED, "print what this is"),
    Option("strict-board", "", "", _HONOURED, "not an FVP's: fail where a real board may not forgive the program"),
    Option(
        "count-instructions",
        "",
        "",
        _HONOURED,
        "not an FVP's: the processor's cycle counter counts instructions, which takes longer",
    ),
    Option("quiet", "q", "", _HONOURED, "leave out the lines that start with Info"),
    Option("stat", "s", "", _HONOURED, "print times and counts at the end"),
    Option("run", "R", "", _IGNORED, "it always runs at once"),
    Option("print-port-number", "p", "", _IGNORED, "no port is used"),
    Option("cadi-server", "S", "", _REFUSED, _NO_DEBUGGER),
    Option("iris-server", "I", "", _REFUSED, _NO_DEBUGGER),
    Option("plugin", "", "FILE", _REFUSED, "plug-ins are for Arm's models"),
    Option("trace-plugin", "", "FILE", _REFUSED, "plug-ins are for Arm's models"),
)

_MASK = 0xFFFFFFFF


class CommandLineError(Exception):
    """A command line that cannot be carried out. The message says why and what to do."""


class Action(enum.Enum):
    """What the command line asks for."""

    RUN = "run"
    HELP = "help"
    VERSION = "version"
    LIST = "list-params"


@dataclass(frozen=True)
class DataFile:
    """A file to load into memory at `address`."""

    path: Path
    address: int


@dataclass(frozen=True)
class DumpFile:
    """A file to write `size` bytes of memory at `address` to, when the run ends."""

    path: Path
    address: int
    size: int


@dataclass(frozen=True)
class UartSettings:
    """The settings of UART0.

    Attributes:
        out_file: where its output goes: "-" for stdout, a path, or "" for nowhere.
        shutdown_on_eot: whether byte 0x04 ends the run.
        shutdown_tag: text that ends the run, or "".
    """

    out_file: str = ""
    shutdown_on_eot: bool = False
    shutdown_tag: str = ""


@dataclass(frozen=True)
class LaunchSettings:
    """The settings of a run.

    Attributes:
        model: the FVP.
        npu: its NPU as Vela spells it, e.g. "ethos-u55-128".
        application: the ELF.
        data: files to load into memory, in order.
        dumps: files to write from memory at the end, in order.
        boot: address of the vector table.
        semihosting: the answers of the processor's semihosting, or None when it is off.
        uart: where UART0's output goes, and what in it ends the run.
        seconds: wall-clock limit, or infinity.
        simulated: whether that limit was given as simulated time.
        quiet: whether to leave out remarks.
        statistics: whether to print statistics.
        rules: of the strict board, that the program must keep.
        counter: whether the processor's cycle counter counts, instructions.
    """

    model: FvpModel
    npu: str
    application: Path
    data: tuple[DataFile, ...]
    dumps: tuple[DumpFile, ...]
    boot: int
    semihosting: Semihosting | None
    uart: UartSettings
    seconds: float
    simulated: bool
    quiet: bool
    statistics: bool
    rules: frozenset[Rule] = frozenset()
    counter: bool = False


def parse(model: FvpModel, arguments: Sequence[str]) -> LaunchSettings | Action:
    """Return the settings of the run that `arguments` ask of `model`, or the other action they ask for.

    Raises:
        CommandLineError: the arguments are wrong, or ask for something that the virtual board does not do.
    """
    given, files = _options(arguments)
    for action in (Action.HELP, Action.VERSION, Action.LIST):
        if any(option.name == action.value for option, _ in given):
            return action
    texts: dict[str, str] = {}
    applications = list(files)
    data: list[DataFile] = []
    dumps: list[DumpFile] = []
    limits: list[tuple[float, bool]] = []
    flags: set[str] = set()
    for option, argument in given:
        if option.treatment is Treatment.REFUSED:
            raise CommandLineError(f"--{option.name} is not available on the virtual board: {option.note}")
        if option.name == "application":
            applications.append(_without_instance(argument))
        elif option.name == "data":
            data.append(_data(argument))
        elif option.name == "dump":
            dumps.append(_dump(argument))
        elif option.name == "parameter":
            texts.update([_setting(argument)])
        elif option.name == "config-file":
            texts.update(_config_file(Path(argument)))
        elif option.name in ("timelimit", "simlimit"):
            limits.append((_seconds(option, argument), option.name == "simlimit"))
        else:
            flags.add(option.name)
    try:
        values = parameters.check(texts, model)
        strict_board = "strict-board" in flags or says_yes(STRICT_BOARD_VARIABLE)
    except (ParameterError, UsageError) as error:
        raise CommandLineError(str(error)) from None
    if len(applications) != 1:
        count = "none is given" if not applications else f"{len(applications)} are: {', '.join(applications)}"
        raise CommandLineError(f"one application is needed (-a FILE); {count}")
    seconds, simulated = min(limits, default=(math.inf, False))
    return LaunchSettings(
        model=model,
        npu=_npu(model, values),
        application=Path(applications[0]),
        data=tuple(data),
        dumps=tuple(dumps),
        boot=_boot(model, values),
        semihosting=_semihosting(values),
        uart=UartSettings(
            str(values.get("{board}.uart0.out_file", "")),
            bool(values["{board}.uart0.shutdown_on_eot"]),
            str(values.get("{board}.uart0.shutdown_tag", "")),
        ),
        seconds=seconds,
        simulated=simulated,
        quiet="quiet" in flags,
        statistics="stat" in flags,
        rules=FOREIGN_BOARD if strict_board else frozenset(),
        counter="count-instructions" in flags,
    )


def _options(arguments: Sequence[str]) -> tuple[list[tuple[Option, str]], list[str]]:
    """Return the options with their arguments, and the remaining arguments."""
    letters = "".join(option.short + ":" * bool(option.argument) for option in OPTIONS if option.short)
    names = [option.name + "=" * bool(option.argument) for option in OPTIONS]
    try:
        options, files = getopt.gnu_getopt(list(arguments), letters, names)
    except getopt.GetoptError as error:
        near = difflib.get_close_matches(error.opt, [option.name for option in OPTIONS], 1)
        hint = f"did you mean --{near[0]}?" if near and near[0] != error.opt else "--help lists the options"
        raise CommandLineError(f"{error.msg}; {hint}") from None
    rows = {f"--{option.name}": option for option in OPTIONS} | {f"-{o.short}": o for o in OPTIONS if o.short}
    return [(rows[name], argument) for name, argument in options], files


def _without_instance(text: str) -> str:
    """Return the file of "[INST=]FILE"; there is only one processor to load for."""
    instance, equals, file = text.partition("=")
    return unquote(file if equals and "/" not in instance else text)


def _data(text: str) -> DataFile:
    file, at, address = _without_instance(text).rpartition("@")
    space, _, number = address.rpartition(":")
    try:
        value = int(number, 0)
    except ValueError:
        value = -1
    if not at or not file or space or not 0 <= value <= _MASK:
        raise CommandLineError(f"--data takes [INST=]FILE@ADDRESS, not {text!r}")
    return DataFile(Path(file), value)


def _dump(text: str) -> DumpFile:
    file, at, place = _without_instance(text).rpartition("@")
    address, comma, size = place.partition(",")
    try:
        values = int(address, 0), int(size, 0)
    except ValueError:
        values = -1, 0
    if not at or not file or not comma or not 0 <= values[0] <= _MASK or not 0 < values[1] <= _MASK:
        raise CommandLineError(
            f"--dump takes [INST=]FILE@ADDRESS,SIZE, not {text!r}; there is one memory space, which has no name here"
        )
    return DumpFile(Path(file), *values)


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise CommandLineError(f"a parameter is set by name=value, not {text!r}")
    return name.strip(), unquote(value.strip())


def unquote(text: str) -> str:
    """Return `text` without the pair of quotes around it, which shells leave to the FVP in `out_file='-'`."""
    return text[1:-1] if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"" else text


def _config_file(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandLineError(f"the configuration file {path} cannot be read: {error}") from None
    settings: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        text = _without_comment(line)
        try:
            settings.update([_setting(text)] if text else [])
        except CommandLineError as error:
            raise CommandLineError(f"{path}, line {number}: {error}") from None
    return settings


def _without_comment(line: str) -> str:
    quote = ""
    for index, character in enumerate(line):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character == "#":
            return line[:index].strip()
    return line.strip()


def _seconds(option: Option, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < math.inf:
        raise CommandLineError(f"--{option.name} takes a number of seconds, not {text!r}")
    return seconds


def _npu(model: FvpModel, values: Mapping[str, bool | int | str]) -> str:
    fvp = model.fvp
    macs = values.get("{npu}.num_macs", model.npu.default_macs)
    if macs not in model.npu.macs:
        valid = ", ".join(str(count) for count in model.npu.macs)
        raise CommandLineError(f"{fvp.npu_path}.num_macs is {macs}; {fvp.executable} has {valid}")
    # In quotes, as upstream's scripts have it, all of them are one word.
    for word in " ".join(shlex.split(str(values.get("{npu}.extra_args", "")))).split():
        if word != "--fast":
            raise CommandLineError(f"{fvp.npu_path}.extra_args has {word!r}; the virtual board knows --fast")
    return f"ethos-{model.npu.family}-{macs}"


def _boot(model: FvpModel, values: Mapping[str, bool | int | str]) -> int:
    addresses = {int(value) for name, value in values.items() if "INITSVTOR" in name}
    if len(addresses) > 1:
        addresses.discard(model.soc.boot)  # a default, which a file made of --list-params sets too
    if len(addresses) > 1:
        raise CommandLineError("INITSVTOR and INITSVTOR_RST are not the same address")
    boot = addresses.pop() if addresses else model.soc.boot
    if not 0 <= boot <= _MASK or boot % 128:
        raise CommandLineError(f"INITSVTOR is 0x{boot:x}; a vector table is at a multiple of 128")
    return boot


def _semihosting(values: Mapping[str, bool | int | str]) -> Semihosting | None:
    if not values["{cpu}.semihosting-enable"]:
        return None
    command_line = str(values.get("{cpu}.semihosting-cmd_line", ""))
    if len(command_line) > MAX_COMMAND_LINE:
        raise CommandLineError(
            f"the semihosting command line has {len(command_line)} characters; an FVP cuts it off after "
            f"{MAX_COMMAND_LINE}, so shorten its file names and set semihosting-cwd"
        )
    words = [int(values[f"{{cpu}}.semihosting-{name}"]) for name in HeapInfo.NAMES]
    if any(not 0 <= word <= _MASK for word in words):
        raise CommandLineError("a semihosting heap or stack address has more than 32 bits")
    cwd = Path(str(values.get("{cpu}.semihosting-cwd", "")) or ".")
    if not cwd.is_dir():
        raise CommandLineError(f"semihosting-cwd {str(cwd)!r} is not a folder")
    return Semihosting(command_line, cwd, HeapInfo(*words))
