"""The parameters that an FVP has, as its `--list-params` prints them.

Sources of the form: lists that Arm's own documents quote, in full lines, for FVPs of the Corstone-300
(ARM-software/AVH, DoxyGen/simulation/src/using.md; MDK-Packs' READMEs, one of them with "cpu_core." before every name),
for an RTSM on Windows (tianocore's ArmPlatformPkg notes: strings in quotes) and for FVP_Base (a blog's of 2025). Lines
of real lists of six Corstones, of Fast Models 11.22.35 to 11.31.28, are in Kwon-GiHwan/mps4_prototyping_board
(docs/paper/platform_sensitivity/probe_raw/fvp_inventory.json): strings have no quotes there, and each list has 1,730 to
1,877 lines.
All have a heading of lines that begin with "#", and a line for each parameter:

    instance.parameter=value       # (type  , init-time) default = 'value' : description : [min..max]

None was seen in full.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

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
        found = (_LINE.fullmatch(line.strip()) for line in text.splitlines())
        return cls(frozenset(line["name"] for line in found if line is not None))

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
