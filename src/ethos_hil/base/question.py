"""What is asked of a model, said once.

A question has four groups of fields: what it is about, what it is compiled for, where it runs, and how the answer is
judged. Each field carries its help, its bounds and its command-line name. The options of every command
(`ethos_hil.harness.cli.asking`), the keywords of the API (`ethos_hil.harness.api`), the options of pytest,
JSON both ways, the digest, the checks, and the commands that ask a record's question again (`ethos_hil.base.asking`)
are all made from them.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ethos_hil.base.dataclasses import dataclass, field
from ethos_hil.base.errors import UsageError
from ethos_hil.base.field_option import (
    FieldOption,
    digest_in_memory,
    digest_of_readable,
    to_json,
)
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.options import (
    ARRAYS,
    DEFAULTS,
    GROUPS,
    OPTIONS,
    PROGRAM_SUFFIXES,
    JudgeOptions,
    LoweringOptions,
    PlaceOptions,
)
from ethos_hil.base.plain_text import portable

_CASE = "::"
"""What pytest's id of a test has and the name of a model has not."""


@dataclass(frozen=True, kw_only=True)
class Question(LoweringOptions, PlaceOptions, JudgeOptions):
    """What is asked of a model. Values are as the user gave them: `check` says what is wrong with one.

    Attributes:
        digests: SHA-256 of what a field refers to beyond its text, by the field's name: a file, or a value in memory.
            `for_record` fills it in; a record's question has it.
    """

    digests: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def label(self) -> str:
        """The model's name in records."""
        return self.model if isinstance(self.model, str) else self.model.label

    @property
    def is_program(self) -> bool:
        """Whether the model is named as a program that is compiled already."""
        return self.label.lower().endswith(PROGRAM_SUFFIXES)

    @property
    def is_test(self) -> bool:
        """Whether the model is a test of a suite, named by pytest's id."""
        return _CASE in self.label

    def check(self, option_of: Callable[[str], FieldOption] | None = None) -> None:
        """Check what needs neither a model nor a target.

        Args:
            option_of: how the command that was called asks for a field, where it has names of its own.

        Raises:
            UsageError: a number is out of its bounds, no NPU or scheme has the name, or options contradict one another.
        """
        EthosU.parse(self.npu)
        for name, how in OPTIONS.items():
            value = getattr(self, name)
            how = how if option_of is None else option_of(name)
            problem = None if value == DEFAULTS.get(name) else how.problem(name, value)
            if problem is not None:
                raise problem
        for name in ("require_delegated", "max_cpu_ops", "min_npu_share"):
            if self.allow_cpu_only and name in self.given:
                raise UsageError(
                    f"--allow-cpu-only and {OPTIONS[name].flag(name)} contradict one another",
                    hint="leave out one of them",
                )
        if self.optimise == "Size" and self.arena_cache_size is not None:
            raise UsageError(
                "--arena-cache-size says nothing with --optimise Size",
                hint="Vela then uses as little memory as it can; leave out one of them",
            )
        if self.calibrate == "":
            raise UsageError("--calibrate is empty", hint="give X.npz or file.py:function")

    def but(self, **changes: Any) -> Question:
        """Return the question with other values; what was known of the old values goes with them."""
        digests = {name: digest for name, digest in self.digests.items() if name not in changes}
        return dataclasses.replace(self, digests=digests, **changes)

    def for_record(self) -> Question:
        """Return the question as a record keeps it: files and values in memory by their digests."""
        digests, values = dict(self.digests), dict[str, Any]()
        if not isinstance(self.model, str):
            values["model"], digests["model"] = self.model.label, ""
        for name, how in OPTIONS.items():
            value = getattr(self, name)
            if name == "model" or name in digests or value is None:
                continue
            if not isinstance(value, str | Path) and how.kind in (str, Path) and not how.many:
                values[name], digests[name] = None, digest_in_memory(value)
            elif how.content and how.many:
                digests |= {name: digest_of_readable(*value)} if value else {}
            elif how.content and (how.kind is Path or str(value).lower().endswith(ARRAYS)):
                digests[name] = digest_of_readable(value)
        return dataclasses.replace(self, digests=digests, **values)

    @property
    def in_memory(self) -> tuple[str, ...]:
        """The fields of a kept question whose values no command can name: they were objects of Python."""
        lost = ("model",) if self.digests.get("model") == "" else ()
        return (*lost, *(name for name in self.digests if name != "model" and getattr(self, name) is None))

    def to_json(self) -> dict[str, Any]:
        """Return the kept question ready for JSON: a group after the other, then the digests."""
        kept = self.for_record()
        document: dict[str, Any] = {
            group: {name: to_json(getattr(kept, name)) for name in names} for group, names in GROUPS.items()
        }
        return {**document, "digests": dict(kept.digests)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Question:
        """Return the question of `to_json`'s output. Fields that are not known, as of a later version, are left out.

        Raises:
            TypeError: a value has another type than its field.
        """
        values: dict[str, Any] = {}
        for group, names in GROUPS.items():
            part = _mapping(document.get(group, {}), group)
            values |= {name: _from_json(name, part[name]) for name in names if name in part}
        if "model" not in values:
            raise TypeError("the question has no model")
        digests = _mapping(document.get("digests", {}), "digests")
        if not all(isinstance(text, str) for pair in digests.items() for text in pair):
            raise TypeError(f"digests are {digests!r:.50}")
        return cls(digests={name: digest for name, digest in digests.items() if name in OPTIONS}, **values)

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 of the question, the same wherever the files that it names lie."""
        kept = self.for_record()
        values = {name: to_json(getattr(kept, name)) for name in OPTIONS if name == "model" or name not in kept.digests}
        values |= {name: portable(value) for name, value in values.items() if isinstance(value, str)}
        text = json.dumps([values, dict(kept.digests)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def _from_json(name: str, value: Any) -> Any:
    absent = value is None and DEFAULTS.get(name) is None and name != "model"
    return None if absent else OPTIONS[name].from_json(name, value)


def _mapping(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} is {value!r:.50}, not an object")
    return value
