"""How each command, and each function of the API, asks a question: its fields, and what is different there."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping
from typing import Any

from ethos_hil.base.dataclasses import dataclass, field
from ethos_hil.base.field_option import FieldOption
from ethos_hil.base.options import DEFAULT_NPU, DEFAULT_TARGET, DEFAULTS, GROUPS, NOWHERE, OPTIONS
from ethos_hil.base.plain_text import portable
from ethos_hil.base.question import Question

_MODEL, _COMPILE = GROUPS["model"], GROUPS["compile"]
_DELEGATION = ("allow_cpu_only", "require_delegated", "max_cpu_ops", "min_npu_share")
_PROFILE = ("profile", "found_by", "events")
_LOWERED = tuple(name for name in (*_MODEL, *_COMPILE) if name != "ptd")
"""What is asked of a model that is not compiled yet."""


@dataclass(frozen=True)
class Asking:
    """How a command asks a question.

    Attributes:
        command: its words.
        fields: the fields that it has options for.
        changes: what is different there: changed attributes of the `FieldOption`, by field.
        defaults: its own defaults, by field.
        always: fields that are named also where they have their default.
    """

    command: tuple[str, ...]
    fields: tuple[str, ...]
    changes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    always: tuple[str, ...] = ("npu",)

    def option(self, name: str) -> FieldOption:
        """Return how the command asks for a field."""
        changes = self.changes.get(name)
        return dataclasses.replace(OPTIONS[name], **changes) if changes else OPTIONS[name]

    def default(self, name: str) -> Any:
        """Return the value of a field that the command's line does not name."""
        return self.defaults.get(name, DEFAULTS.get(name))


def _all_but(*names: str) -> tuple[str, ...]:
    return tuple(name for name in OPTIONS if name not in names)


RUN = Asking(
    ("ethos-hil", "run"), _all_but(*_PROFILE),
    {"model": {"help": f"{OPTIONS['model'].help} Or a .zip that `ethos-hil bundle` wrote, which has all of these."}},
)  # fmt: skip
PROFILE = Asking(
    ("ethos-hil", "profile"),
    _all_but("profile", "allow_unverified", "runner"),
    {
        "model": {"metavar": "[MODEL]", "help": "As for `run`. Without one, give --from."},
        "method": {"flags": ("--program-method",)},
        "found_by": {"flags": ("--method",)},
        "repeat": {
            "help": "Executions with each set of events; the median counts.",
            "otherwise": "1 on the virtual board, which is always alike, else 3",
        },
    },
    {"profile": True, "timeout": 600.0},
)
LOWER = Asking(
    ("ethos-hil", "lower"),
    tuple(name for name in _LOWERED if name != "method"),
    {"npu": {"help": "For pte and vela: NPU to compile for.", "otherwise": DEFAULT_NPU}},
)
PREFLIGHT = Asking(("ethos-hil", "preflight"), (*_MODEL, *_COMPILE, "target", "runner", "inputs", *_DELEGATION))
IMAGE = Asking(("ethos-hil", "image"), (*_MODEL, *_COMPILE, "inputs", "repeat", *_DELEGATION))
EVALUATE = Asking(
    ("ethos-hil", "evaluate"), (*_LOWERED, "target", "timeout"),
    {"timeout": {"help": "Limit for one boot, with up to 64 items."}},
)  # fmt: skip
SCAN = Asking(("ethos-hil", "scan"), tuple(name for name in _LOWERED if name not in ("npu", "memory_mode")))
API = Asking((), tuple(name for name in OPTIONS if name != "allow_unverified"))
"""The functions of `ethos_hil`, which have no exit status."""
API_LOWER = Asking((), LOWER.fields)
API_OPEN = Asking((), tuple(name for name in API.fields if name not in (*GROUPS["place"], "npu") or name == "clock"))
"""An open target's `run`: the target and the NPU are given already."""
BENCH = Asking(
    ("ethos-hil", "bench"),
    ("npu", "memory_mode", "system_config", "vela_ini", "subject", "target", "scheme", "repeat", "timeout", "clock"),
    always=("npu", "memory_mode", "system_config"),
)  # fmt: skip
"""A benchmark of one point; its options are its own, with the same flags."""
TESTING = Asking(("pytest",), tuple(name for name, how in OPTIONS.items() if how.session))
"""A session of pytest that asks the question of one test."""


def words(question: Question, asking: Asking, *, elsewhere: bool = False) -> tuple[str, ...]:
    """Return the words of a command's line that ask a question: MODEL, and the options that are not defaults.

    Args:
        question: what is asked.
        asking: the command.
        elsewhere: leave out the folders of this machine.
    """
    name_of = portable if elsewhere else str
    line = [name_of(question.label)]
    for name in asking.fields:
        how, value = asking.option(name), getattr(question, name)
        if name == "model" or value in (None, "") or (value == asking.default(name) and name not in asking.always):
            continue
        flag = how.flag(name)
        if how.kind is bool:
            line.append(flag)
        elif how.many:
            line += [f"{flag}={item}" for item in value]
        else:
            line += [flag, name_of(_text(value))]
    return tuple(line)


def again(question: Question, *, elsewhere: bool = False) -> str:
    """Return the command that asks a question again; "" where no command can: something of it was in memory.

    Args:
        question: as a record keeps it.
        elsewhere: without the folders of this machine, for a reader on another one.
    """
    if question.in_memory:
        return ""
    asking = TESTING if question.is_test else PROFILE if question.profile else RUN
    line: tuple[str, ...] = ()
    if question.target == NOWHERE:
        question, line = question.but(target=DEFAULT_TARGET), ("--compile-only",)
    return shlex.join((*asking.command, *words(question, asking, elsewhere=elsewhere), *line))


def _text(value: Any) -> str:
    """Return a value as a word of a command's line that is read as the same value."""
    return f"{value:.0f}" if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else str(value)
