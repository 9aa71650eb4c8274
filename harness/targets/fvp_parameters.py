"""The parameters of an FVP: which it has, as its `--list-params` prints them, and which it is run with, and for what.

An FVP refuses a command line with a parameter that it does not have, and releases differ. So it is asked for its list,
and only what it has is set. docs/targets.md shows the table; `Fvp.settings` and `Fvp.runner_settings` of harness/socs
add what only one FVP has.

Sources of the parameters: ExecuTorch's backends/arm/test/runner_utils.py and backends/arm/scripts/run_fvp.sh (all names
but these); Arm's ml-embedded-evaluation-kit (`unbuffered_output` on a Corstone-300). `untimed_fifos` is known of other
FVPs, whose UART is a PL011 (Trusted Firmware-A's user guide). The terminals of both boards are 0, 1, 2 and 5 (public
logs of all Corstones).

Sources of the list's form: lists that Arm's own documents quote, in full lines, for FVPs of the Corstone-300
(ARM-software/AVH, DoxyGen/simulation/src/using.md; MDK-Packs' READMEs, one of them with "cpu_core." before every name),
for an RTSM on Windows (tianocore's ArmPlatformPkg notes: strings in quotes) and for FVP_Base (a blog's of 2025). Lines
of real lists of six Corstones, of Fast Models 11.22.35 to 11.31.28, are in Kwon-GiHwan/mps4_prototyping_board
(docs/paper/platform_sensitivity/probe_raw/fvp_inventory.json): strings have no quotes there, and each list has 1,730 to
1,877 lines.
All have a heading of lines that start with "#", and a line for each parameter:

    instance.parameter=value       # (type  , init-time) default = 'value' : description : [min..max]

None was seen in full.
"""

from __future__ import annotations

import difflib
import enum
import re
from collections.abc import Iterator, Mapping

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import TargetNotAvailable
from ethos_hil.harness.socs.soc import Fvp

_NEAR = 3
_LINE = re.compile(
    r"""
    \s* (?: -C \s+ )?
    (?P<name> [A-Za-z_][\w\-\[\]]* (?: \. [\w\-\[\]]+ )+ )  # instances and the parameter: at least one dot
    \s* (?: = .* | \# .* )                                  # a value, and what it is, or one of the two
    """,
    re.VERBOSE,
)


@dataclass(frozen=True)
class FvpListing:
    """The parameters that an FVP has.

    Attributes:
        names: their full names; none where the FVP did not list them.
        lacking: why it did not, in words, or "".
    """

    names: frozenset[str]
    lacking: str = ""

    @classmethod
    def parse(cls, text: str) -> FvpListing:
        """Read what `--list-params` printed. Lines that name no parameter are left out."""
        matches = (_LINE.fullmatch(line.strip()) for line in text.splitlines())
        return cls(frozenset(line["name"] for line in matches if line is not None))

    @property
    def known(self) -> bool:
        """Whether the FVP listed its parameters."""
        return bool(self.names)

    def matching(self, pattern: str) -> tuple[str, ...]:
        """Return the parameters of this name, in which each `#` stands for a number.

        An FVP may have further instances before all its names. So a name that ends in this one counts too, but only
        where none is equal to it.
        """
        number = re.escape(pattern).replace(re.escape("#"), "[0-9]+")
        equal = sorted(name for name in self.names if re.fullmatch(number, name))
        return tuple(equal or sorted(name for name in self.names if re.fullmatch(rf".+\.{number}", name)))

    def near(self, name: str) -> list[str]:
        """Return the names that `name` may have been: the same parameter of other instances first."""
        last = name.rpartition(".")[2]
        same = sorted(other for other in self.names if other.rpartition(".")[2] == last)
        alike = difflib.get_close_matches(name, sorted(self.names), _NEAR)
        return list(dict.fromkeys([*same, *alike]))[:_NEAR]


class Use(enum.Enum):
    """What a parameter is set for."""

    EVERY_RUN = "every run"
    FAST = "`--fast`"
    FIRMWARE = "our firmware"
    RUNNER = "`--runner`"


class Need(enum.Enum):
    """What is done where an FVP lacks a parameter, or does not list what it has."""

    NEEDED = "needed"
    """Lacking: the FVP cannot be used. Not listed: it is set."""
    USUAL = "usual"
    """Lacking: left out, and a note says so. Not listed: it is set."""
    EXTRA = "where there is one"
    """Lacking or not listed: left out."""


@dataclass(frozen=True)
class FvpParameter:
    """A row of the table.

    Attributes:
        pattern: its name; `{cpu}`, `{npu}` and `{board}` stand for the FVP's instance paths, `#` for every number.
        value: what it is set to; `{macs}`, `{uart}`, `{folder}` and `{command_line}` stand for values of the run.
        use: what it is set for.
        need: what is done where an FVP lacks it.
        why: why it is set, in a few words.
    """

    pattern: str
    value: str
    use: Use
    need: Need
    why: str

    def name(self, fvp: Fvp) -> str:
        """Return its name on `fvp`, with `#` kept."""
        return self.pattern.format(cpu=fvp.cpu_path, npu=fvp.npu_path, board=fvp.board_path)


_NEEDED, _USUAL, _EXTRA = Need.NEEDED, Need.USUAL, Need.EXTRA

PARAMETERS = (
    FvpParameter("{npu}.num_macs", "{macs}", Use.EVERY_RUN, _NEEDED, "from `--npu`"),
    FvpParameter("{board}.visualisation.disable-visualisation", "1", Use.EVERY_RUN, _USUAL, "no window"),
    FvpParameter("{board}.telnetterminal0.start_telnet", "0", Use.EVERY_RUN, _USUAL, "no terminal window"),
    FvpParameter("{board}.telnetterminal#.start_telnet", "0", Use.EVERY_RUN, _EXTRA, "nor any other"),
    FvpParameter("{npu}.extra_args", "'--fast'", Use.FAST, _NEEDED, "without it the NPU keeps time"),
    FvpParameter(
        "{board}.uart0.out_file", "{uart}", Use.FIRMWARE, _NEEDED,
        "a file in a private folder: stdout is the FVP's own, and its words would be among the frames",
    ),
    FvpParameter("{board}.uart0.unbuffered_output", "1", Use.FIRMWARE, _USUAL, "frames are read while they come"),
    FvpParameter("{board}.uart0.untimed_fifos", "1", Use.FIRMWARE, _EXTRA, "no baud rate to wait for"),
    FvpParameter("{board}.uart0.out_file", "'-'", Use.RUNNER, _NEEDED, "to stdout"),
    FvpParameter("{cpu}.semihosting-enable", "1", Use.RUNNER, _NEEDED, "what a runner talks by"),
    FvpParameter("{cpu}.semihosting-stack_base", "0", Use.RUNNER, _NEEDED, "the program places its stack"),
    FvpParameter("{cpu}.semihosting-heap_limit", "0", Use.RUNNER, _NEEDED, "and its heap"),
    FvpParameter("{cpu}.semihosting-cwd", "{folder}", Use.RUNNER, _NEEDED, "the folder with its files"),
    FvpParameter("{cpu}.semihosting-cmd_line", "'{command_line}'", Use.RUNNER, _NEEDED, "its arguments"),
)  # fmt: skip
"""In the order of the command line."""


@dataclass(frozen=True)
class FvpSettings:
    """The parameters of a run.

    Attributes:
        values: by the name that the FVP has for each, in the order of the command line.
        lacking: usual ones that it does not have.
        renamed: those that it has under another name: that, and the usual one.
    """

    values: dict[str, str]
    lacking: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()

    def then(self, other: FvpSettings) -> FvpSettings:
        """Return these and others."""
        return FvpSettings(self.values | other.values, self.lacking + other.lacking, (*self.renamed, *other.renamed))

    def notes(self, fvp: Fvp) -> tuple[str, ...]:
        """Return what is unusual about them, a sentence each."""
        notes = []
        if self.lacking:
            notes.append(f"{fvp.executable} has no {', no '.join(self.lacking)}: not set")
        if self.renamed:
            (name, usual), others = self.renamed[0], len(self.renamed) - 1
            more = f", and {others} more such" if others else ""
            notes.append(f"{fvp.executable} has other names for parameters: {name} for {usual}{more}")
        return tuple(notes)


def settings(fvp: Fvp, version: str, listing: FvpListing, use: Use, values: Mapping[str, str]) -> FvpSettings:
    """Return what to set for one use.

    Args:
        fvp: the FVP.
        version: what it says of itself, for messages.
        listing: the parameters that it has.
        use: for what.
        values: of the run, by the placeholders that its rows have.

    Raises:
        TargetNotAvailable: the FVP lacks one that is needed; names it, the FVP, and names like it.
    """
    chosen: dict[str, str] = {}
    lacking: list[str] = []
    renamed: list[tuple[str, str]] = []
    for wanted, value, need in _rows(fvp, use, values):
        names = listing.matching(wanted) if listing.known else ()
        if not listing.known and need is not Need.EXTRA:
            names = (wanted,)
        if need is Need.EXTRA:
            chosen |= {name: value for name in names if name not in chosen}
        elif len(names) == 1:
            chosen[names[0]] = value
            renamed += [(names[0], wanted)] if names[0] != wanted else []
        elif need is Need.NEEDED:
            raise _missing(fvp, version, listing, wanted, names)
        else:
            lacking.append(wanted)
    return FvpSettings(chosen, tuple(lacking), tuple(renamed))


def _rows(fvp: Fvp, use: Use, values: Mapping[str, str]) -> Iterator[tuple[str, str, Need]]:
    """Yield name, value and need of each parameter for a use."""
    for row in PARAMETERS:
        if row.use is use:
            yield row.name(fvp), row.value.format_map(values), row.need
    own = {Use.EVERY_RUN: fvp.settings, Use.RUNNER: fvp.runner_settings}.get(use, ())
    for name, value in own:
        yield name, value, Need.USUAL


def _missing(fvp: Fvp, version: str, listing: FvpListing, name: str, candidates: tuple[str, ...]) -> TargetNotAvailable:
    near = candidates or tuple(listing.near(name))
    return TargetNotAvailable(
        f"{fvp.executable} ({version}) has no parameter {name}, which a run needs",
        hint=(f"it has {', '.join(near)}; " if near else "") + "is it the FVP of this Corstone? "
        f"`{fvp.executable} --list-params` lists what it has",
    )
