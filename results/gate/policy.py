"""What a gate allows: a policy, read from a TOML file that the user keeps in git.

    schema_version = 1

    [gate]                      # what each word does: "fail", "warn", "ignore", or "accept": it fails until accepted
    improved = "fail"           # so that every better number is put into the baseline, too

    [[rule]]                    # later rules win
    metric = "npu_cycles"
    label = "*mobilenet*"
    allowed_percent = 0.5

    [aliases]                   # the name now = the name before
    "suites/ops/test_conv2d.py::test_conv2d_wide_BI" = "suites/ops/test_conv2d.py::test_conv2d_broad_BI"

`policy.schema.json` beside this file is its JSON schema; docs/compare.md explains it.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cached_property
from importlib import resources
from itertools import compress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ethos_hil.base.checked_toml import read_checked
from ethos_hil.base.dataclasses import dataclass, field, fields, replace
from ethos_hil.base.errors import UsageError
from ethos_hil.results.compaction.columns import NOISY
from ethos_hil.results.gate.change import VERDICT, Effect, Word
from ethos_hil.results.gate.observation import Observation

SCHEMA = "policy.schema.json"
_PATTERNS = ("metric", "provenance", "label", "npu")


@dataclass(frozen=True)
class PolicyRule:
    """What is allowed of the numbers that it matches. None: as the rules before say.

    Attributes:
        metric, provenance, label, npu: patterns, as a shell has them.
        better: "lower", "higher" or "neither".
        compared: whether the number is compared at all.
        allowed_percent: how far an exact number may be from the one before, in percent of it.
        smallest_percent: of a noisy number, the smallest difference of medians that counts, in percent.
        least_samples: of a noisy number, the samples that are needed on each side.
        effects: what a word does to the gate, where it is not what `Policy.effects` says.
    """

    metric: str = "*"
    provenance: str = "*"
    label: str = "*"
    npu: str = "*"
    better: str | None = None
    compared: bool | None = None
    allowed_percent: float | None = None
    smallest_percent: float | None = None
    least_samples: int | None = None
    effects: Mapping[Word, Effect] = field(default_factory=dict, hash=False)

    def matches(self, metric: str, provenance: str, label: str, npu: str) -> bool:
        """Return whether it is about a number."""
        return (
            _matches(metric, self.metric)
            and _matches(provenance, self.provenance)
            and _matches(label, self.label)
            and _matches(npu, self.npu)
        )


def _matches(text: str, pattern: str) -> bool:
    return pattern == "*" or fnmatchcase(text, pattern)


@dataclass(frozen=True)
class Allowance:
    """What all rules together say of a number. Attributes are those of `PolicyRule`."""

    better: str
    compared: bool
    allowed_percent: float
    smallest_percent: float
    least_samples: int
    effects: Mapping[Word, Effect] = field(hash=False)


EFFECTS: Mapping[Word, Effect] = MappingProxyType({
    Word.UNCHANGED: Effect.IGNORE,
    Word.IMPROVED: Effect.WARN,
    Word.REGRESSED: Effect.FAIL,
    Word.CHANGED: Effect.WARN,
    Word.NEW: Effect.WARN,
    Word.MISSING: Effect.FAIL,
    Word.EDITED: Effect.WARN,
    Word.INCOMPARABLE: Effect.FAIL,
    Word.UNSTABLE: Effect.FAIL,
    Word.UNKNOWN: Effect.WARN,
    Word.ACCEPTED: Effect.WARN,
})  # fmt: skip
"""What each word does where no policy says otherwise. What cannot be compared does not pass."""
RULES = (
    PolicyRule(better="lower", compared=True, allowed_percent=0.0, smallest_percent=2.0, least_samples=10),
    PolicyRule(provenance="host", compared=False),  # a trend: other programs of the machine decide about it
    PolicyRule(metric="delegated", better="higher"),
    PolicyRule(metric="npu_ops", better="neither"),
    PolicyRule(metric="stack_size", better="neither"),
    # Those are not verdicts, and the last digit of an SQNR depends on how a machine adds in floating point. Runs of
    # earlier versions do not have these numbers.
    *(
        PolicyRule(
            metric=name,
            better="higher",
            effects={Word.REGRESSED: Effect.WARN, Word.MISSING: Effect.WARN, Word.NEW: Effect.IGNORE},
        )
        for name in ("sqnr_db", "agreement")
    ),
    PolicyRule(metric="cpu_multiplications", effects={Word.MISSING: Effect.WARN, Word.NEW: Effect.IGNORE}),
)
"""What is allowed of each number where no policy says otherwise."""


@dataclass(frozen=True)
class Policy:
    """What a gate allows.

    Attributes:
        effects: what each word does to the gate.
        rules: the later wins.
        aliases: labels as they are now, with those of before.
    """

    effects: Mapping[Word, Effect] = field(default_factory=lambda: EFFECTS, hash=False)
    rules: tuple[PolicyRule, ...] = RULES
    aliases: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def accepts(self) -> bool:
        """Whether some change waits until a baseline has it."""
        return any(Effect.ACCEPT in table.values() for table in (self.effects, *(rule.effects for rule in self.rules)))

    def of(self, metric: str, provenance: str, label: str, npu: str) -> Allowance:
        """Return what is allowed of a number."""
        matching = tuple(rule.matches(metric, provenance, label, npu) for rule in self.rules)
        if matching not in self._allowances:
            self._allowances[matching] = _allowance(self.effects, compress(self.rules, matching))
        return self._allowances[matching]

    def unfitting(self, tests: Iterable[Observation]) -> tuple[str, ...]:
        """Return a sentence for each rule of the file that is about nothing of a comparison: it may have a typo."""
        own = self.rules[len(RULES) :] if self.rules[: len(RULES)] == RULES else self.rules
        numbers = dict.fromkeys(
            (*key, test.subject.label, test.subject.npu) for test in tests for key in (*test.numbers, (VERDICT, ""))
        )
        return tuple(
            f"the policy's rule {at} ({_text_of(rule)}) fits nothing{_suggestion(rule, numbers)}"
            for at, rule in enumerate(own, start=1)
            if not any(rule.matches(*number) for number in numbers)
        )

    @cached_property
    def _allowances(self) -> dict[tuple[bool, ...], Allowance]:
        """What was found for each set of rules: a night has thousands of numbers, and few such sets."""
        return {}


def _text_of(rule: PolicyRule) -> str:
    """Return a rule's patterns as they are in the file."""
    patterns = ((name, getattr(rule, name)) for name in _PATTERNS)
    return ", ".join(f"{name} = {json.dumps(text)}" for name, text in patterns if text != "*") or "without a pattern"


def _suggestion(rule: PolicyRule, numbers: Iterable[tuple[str, ...]]) -> str:
    """Return what the first of a rule's patterns may mean that fits nothing by itself."""
    for name, values in zip(_PATTERNS, zip(*numbers, strict=True), strict=False):
        pattern, there = getattr(rule, name), dict.fromkeys(values)
        if not any(_matches(value, pattern) for value in there):
            close = difflib.get_close_matches(pattern, there, n=1)
            return f': did you mean "{close[0]}"?' if close else ""
    return ""


def _allowance(effects: Mapping[Word, Effect], rules: Iterable[PolicyRule]) -> Allowance:
    settings: dict[str, Any] = {"effects": dict(effects)}
    for rule in rules:
        settings["effects"] |= rule.effects
        settings |= {name: value for name in _SETTINGS if (value := getattr(rule, name)) is not None}
    return Allowance(**settings)


_SETTINGS = tuple(member.name for member in fields(Allowance) if member.name != "effects")
DEFAULT = Policy()


def noisy(provenance: str) -> bool:
    """Return whether numbers of a provenance differ from run to run without a cause."""
    return provenance in NOISY


def read_policy(path: Path) -> Policy:
    """Read a policy.

    Raises:
        UsageError: it cannot be read, or is not a policy.
    """
    file = read_checked(path, schema(), "docs/compare.md explains policies")
    for at, rule in enumerate(file.data.get("rule", ())):
        for name, value in rule.items():
            if isinstance(value, float) and not math.isfinite(value):  # a schema cannot say so
                where = f"{file.line_of('rule', at, name)}: rule[{at + 1}].{name}"
                raise UsageError(f"{where}: {value} is not a limit", hint="give a number, in percent")
    return _policy(file.data)


def schema() -> dict[str, Any]:
    """Return the JSON schema of a policy."""
    document: dict[str, Any] = json.loads(resources.files(__package__).joinpath(SCHEMA).read_text())
    return document


def _policy(data: Mapping[str, Any]) -> Policy:
    rules = tuple(PolicyRule(**{**rule, "effects": _effects(rule.get("effects", {}))}) for rule in data.get("rule", ()))
    return replace(
        DEFAULT,
        effects={**EFFECTS, **_effects(data.get("gate", {}))},
        rules=(*RULES, *rules),
        aliases=dict(data.get("aliases", {})),
    )


def _effects(data: Mapping[str, str]) -> dict[Word, Effect]:
    return {Word(word): Effect(effect) for word, effect in data.items()}
