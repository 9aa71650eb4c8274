"""The FVP's options besides `-C`: a table for the parser, `--help` and docs/targets.md.

Sources of the names: Arm's scx_simconfig.h, and public scripts for the limits, `-f`, `-q`, `-T` and the Iris options.
"""

from __future__ import annotations

from dataclasses import dataclass

from ethos_hil.harness.fvp_stand_in.parameters import Treatment


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
    Option("cpulimit", "", "SECONDS", _HONOURED, "the same as --timelimit"),
    Option("simlimit", "M", "SECONDS", _HONOURED, "the same: the simulated clock is the host's"),
    Option("cyclelimit", "", "CYCLES", _REFUSED, "the processor counts no cycles; use --timelimit"),
    Option("list-params", "l", "", _HONOURED, "print the parameters"),
    Option("help", "h", "", _HONOURED, "print this"),
    Option("version", "", "", _HONOURED, "print what this is"),
    Option("trust-elf", "", "", _HONOURED, "not an FVP's: let the program reach all files and run commands, as there"),
    Option("strict-board", "", "", _HONOURED, "not an FVP's: fail where a real board may not forgive the program"),
    Option(
        "count-instructions",
        "",
        "",
        _HONOURED,
        "not an FVP's: the processor's cycle counter counts instructions, which takes longer",
    ),
    Option("quiet", "q", "", _HONOURED, "leave out the lines that begin with Info"),
    Option("stat", "s", "", _HONOURED, "print times and counts at the end"),
    Option("run", "R", "", _IGNORED, "it always runs at once"),
    Option("print-port-number", "p", "", _IGNORED, "no port is used"),
    Option("keep-console", "K", "", _IGNORED, "for Windows"),
    Option("prefix", "P", "", _REFUSED, "the console has no prefix"),
    Option("cadi-server", "S", "", _REFUSED, _NO_DEBUGGER),
    Option("iris-server", "I", "", _REFUSED, _NO_DEBUGGER),
    Option("iris-allow-remote", "A", "", _REFUSED, _NO_DEBUGGER),
    Option("iris-port", "", "PORT", _REFUSED, _NO_DEBUGGER),
    Option("iris-log", "i", "", _REFUSED, _NO_DEBUGGER),
    Option("cadi-log", "L", "", _REFUSED, _NO_DEBUGGER),
    Option("allow-debug-plugin", "D", "", _REFUSED, "plug-ins are for Arm's models"),
    Option("plugin", "", "FILE", _REFUSED, "plug-ins are for Arm's models"),
    Option("trace-plugin", "", "FILE", _REFUSED, "plug-ins are for Arm's models"),
    Option("break", "b", "[INST=]ADDRESS", _REFUSED, _NO_DEBUGGER),
    Option("start", "", "[INST=]ADDRESS", _REFUSED, "the processor starts from its vector table"),
    Option("output", "o", "FILE", _REFUSED, "redirect stdout"),
)
