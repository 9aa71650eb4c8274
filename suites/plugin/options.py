"""The suites' command line options, what they ask of each test, and names that the plugin's parts share.

Every pytest session of the environment has them. So this module imports nothing slow before they are used, and an
option gives way where its name is taken.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ethos_hil.base.asking import TESTING
from ethos_hil.base.dataclasses import dataclass, replace
from ethos_hil.base.field_option import FieldOption
from ethos_hil.base.npu.family import Family
from ethos_hil.base.options import DEFAULT_TARGET, NOWHERE, OPTIONS
from ethos_hil.base.question import Question
from ethos_hil.base.suffix import CPU_SUFFIX, NPU_SUFFIXES, parse_suffix
from ethos_hil.results.places import DEFAULT_ROOT
from ethos_hil.results.store import is_name, new_name

if TYPE_CHECKING:
    from ethos_hil.harness.campaign.shard import Shard
    from ethos_hil.suites.declare.profile import Profile

ANY_TEST = Question("", allow_cpu_only=True)
"""What is asked of any test by default: its declaration says what is on the NPU."""
TALLY = "ethos-hil-tally"
"""Name of the plugin that counts verdicts."""
RUN = "ethos_hil_run"
"""Key of the run folder's name in the input of xdist's workers."""
RECORDED = "ethos_hil_recorded"
"""Key of the tests that a resumed session does not run, in the input of xdist's workers."""
CONTROLLER = "ethos_hil_controller"
"""Key of the controller's process id there."""
CRASHED = "???"
"""The phase of the report that xdist's controller makes of a test whose worker died (3.8, dsession.py)."""


def _attributes_of(name: str, how: FieldOption) -> dict[str, Any]:
    """Return what pytest is told about a field of the question; several NPUs are of several families."""
    if how.kind is bool:
        return {"action": "store_true", "help": how.help}
    several = {"action": "append"} if name == "npu" or how.many else {}
    return {"metavar": how.metavar or name.upper(), "help": how.help, **several}


_SUFFIXES = ", ".join(("MI (or FP)", "BI (or INT)", *NPU_SUFFIXES, CPU_SUFFIX))
_OPTIONS: dict[str, dict[str, Any]] = {
    "--suffix": {"action": "append", "metavar": "PROFILE", "help": f"run tests of {_SUFFIXES}; repeatable"},
    **{how.flag(name): _attributes_of(name, how) for name, how in OPTIONS.items() if how.session},
    "--compile-only": {"action": "store_true", "help": "run nothing; no test is verified then"},
    "--one-in": {"type": int, "metavar": "N", "help": "run every Nth case of each file only"},
    "--artifacts": {"metavar": "DIR", "help": "keep all that is known of a test that fails"},
    "--runs": {"metavar": "DIR", "help": f"where records are kept ({DEFAULT_ROOT})"},
    "--run-name": {"metavar": "NAME", "help": "keep them in this run folder, which other sessions may share"},
    "--resume": {"action": "store_true", "help": "run no test that ended well before, in the run folder of --run-name"},
    "--shard": {"metavar": "I/N", "help": "run one part of the cases of N, such as 2/4; each case is in one"},
    "--run-part": {"metavar": "TEXT", "help": "the part of a nightly's plan that the records are of"},
    "--run-attempt": {"type": int, "metavar": "N", "help": "the attempt that they are of (1)"},
}
"""An option that is not given is false or None."""
_TAKEN = pytest.StashKey[tuple[str, ...]]()
"""Key in pytest's configuration of the options above that belong to others in this session."""
_RUN_NAME = pytest.StashKey[str]()


def add(parser: pytest.Parser, config: pytest.Config) -> None:
    """Add the options of the suites; a name that another plugin or a conftest.py already uses stays theirs."""
    group = parser.getgroup("ethos-hil", "operators and models on Arm Ethos-U")
    taken: list[str] = []
    for name, attributes in _OPTIONS.items():
        try:
            group.addoption(name, dest=_attribute(name), **attributes)
        except (ValueError, argparse.ArgumentError):
            taken.append(name)
    config.stash[_TAKEN] = tuple(taken)


def is_given(config: pytest.Config) -> bool:
    """Return whether any of them is given in this session."""
    return any(_value(config, name) for name in _OPTIONS)


def names_run(config: pytest.Config) -> bool:
    """Return whether this session's run folder is named, so that other sessions may write it."""
    return _value(config, "--run-name") is not None


def not_on_command_line(config: pytest.Config) -> list[str]:
    """Return the options that come from elsewhere, addopts or PYTEST_ADDOPTS, but for those that only forbid more."""
    words = [str(argument).partition("=")[0] for argument in config.invocation_params.args]
    names = []
    for name in _OPTIONS:
        value = _value(config, name)
        times = len(value) if isinstance(value, list) else 1
        if value and words.count(name) < times and not name.startswith("--strict-"):
            names.append(name)
    return names


def run_name(config: pytest.Config) -> str:
    """Return the name of this session's run folder; it is the same in all its processes."""
    worker: Mapping[str, Any] = getattr(config, "workerinput", {})  # what xdist's controller sends its workers
    if _RUN_NAME not in config.stash:
        config.stash[_RUN_NAME] = worker.get(RUN, "") or _value(config, "--run-name") or new_name()
    return config.stash[_RUN_NAME]


def _attribute(name: str) -> str:
    """Return the option's attribute in the parsed command line; it differs from those of similar options of others."""
    return "ethos_hil_" + name.removeprefix("--").replace("-", "_")


def _value(config: pytest.Config, name: str) -> Any:
    return config.getoption(_attribute(name), default=None)


@dataclass(frozen=True)
class Options:
    """The options of a session.

    Attributes:
        profiles: every profile by its name, for the requested NPU.
        suffixes: the names of the profiles whose tests run; none for all.
        one_in: run every n-th case of each file, and the first.
        question: what every test asks, but for the test and its NPU. What is on the NPU a test declares itself.
        artifacts: folder for all facts about failed tests.
        runs: folder of run folders, which keep the records.
        run: the name of this session's run folder.
        shared: whether the run folder was named, so that other sessions may write it.
        resume: run no test that ended well there before.
        shard: the part of the cases that runs, or None for all.
        part, attempt: see `RunInfo`.
    """

    profiles: Mapping[str, Profile]
    suffixes: frozenset[str]
    one_in: int
    question: Question
    artifacts: Path | None
    runs: Path
    run: str
    shared: bool
    resume: bool
    shard: Shard | None
    part: str
    attempt: int

    @property
    def compile_only(self) -> bool:
        """Whether nothing runs."""
        return self.question.target == NOWHERE

    @property
    def run_folder(self) -> Path:
        """The path of this session's run folder."""
        return self.runs / self.run

    @classmethod
    def of(cls, config: pytest.Config) -> Options:
        """Return the options of the command line; they are made once for a session.

        Raises:
            pytest.UsageError: an option names something that does not exist, or options contradict one another.
        """
        from ethos_hil.base.errors import UsageError

        if _PARSED not in config.stash:
            try:
                config.stash[_PARSED] = cls._parse(config)
            except UsageError as error:
                raise pytest.UsageError(": ".join(filter(None, (error.message, error.hint)))) from None
        return config.stash[_PARSED]

    @classmethod
    def _parse(cls, config: pytest.Config) -> Options:
        from ethos_hil.base.errors import UsageError
        from ethos_hil.harness.campaign.shard import Shard
        from ethos_hil.harness.targets.plugin import TargetOption
        from ethos_hil.harness.targets.registry import check_name, check_option, find_plugin

        def value_of(name: str) -> Any:
            return _value(config, name)

        taken: tuple[str, ...] = config.stash.get(_TAKEN, ())
        if taken:
            raise UsageError(
                f"another plugin or a conftest.py has options of the same name: {', '.join(taken)}",
                hint="run the tests of operators and models in a session without it",
            )
        target = value_of("--target") or DEFAULT_TARGET
        one_in = 1 if value_of("--one-in") is None else value_of("--one-in")
        check_name(target)
        only_npu = _only_npu(target)
        for option in (TargetOption.STRICT, TargetOption.STRICT_BOARD):
            if value_of(option.flag):
                check_option(find_plugin(target), option)
        if one_in < 1:
            raise UsageError(f"--one-in {one_in} selects nothing", hint="1 selects all")
        name = value_of("--run-name")
        if name is not None and not is_name(name):
            raise UsageError(f"--run-name {name!r} is not a name for a folder", hint="use letters, digits, - _ and .")
        if value_of("--resume") and name is None:
            raise UsageError("--resume needs to know what to resume", hint="name its run folder: --run-name")
        return cls(
            profiles=_profiles(value_of("--npu") or only_npu),
            suffixes=frozenset(parse_suffix(text, "--suffix") for text in value_of("--suffix") or []),
            one_in=one_in,
            question=question_of(
                {name: value_of(OPTIONS[name].flag(name)) for name in TESTING.fields},
                compile_only=value_of("--compile-only"),
            ),
            artifacts=None if (artifacts := value_of("--artifacts")) is None else Path(artifacts).absolute(),
            runs=Path(value_of("--runs") or DEFAULT_ROOT).absolute(),
            run=run_name(config),
            shared=name is not None,
            resume=bool(value_of("--resume")),
            shard=None if value_of("--shard") is None else Shard.parse(value_of("--shard")),
            part=value_of("--run-part") or "",
            attempt=value_of("--run-attempt") or 1,
        )


_PARSED = pytest.StashKey[Options]()
"""Key of the options in pytest's configuration."""


def question_of(values: Mapping[str, Any], *, compile_only: bool = False) -> Question:
    """Return what the options of a session ask of each test; the NPU is its profile's."""
    from ethos_hil.lowering.vela.memory_mode import MemoryMode

    given: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    named = {name: value for name, value in given.items() if value and name != "npu"}
    if "memory_mode" in named:
        named["memory_mode"] = MemoryMode.parse(named["memory_mode"]).name
    return ANY_TEST.but(**(named | ({"target": NOWHERE} if compile_only else {})))


def _only_npu(target: str) -> list[str]:
    """Return the NPU that a board has, where it has one: no other can be meant. Raises UsageError."""
    from ethos_hil.base.errors import ToolError
    from ethos_hil.harness.ask.place import only_npu

    if ":" not in target:
        return []
    try:
        npu = only_npu(target)
    except ToolError:  # such as a farm that is not there: each test says so
        return []
    return [] if npu is None else [npu]


def _profiles(npus: list[str]) -> dict[str, Profile]:
    from ethos_hil.base.errors import UsageError
    from ethos_hil.base.npu.ethos_u import EthosU
    from ethos_hil.suites.declare.profile import PROFILES

    wanted: dict[Family, EthosU] = {}
    for npu in map(EthosU.parse, npus):
        other = wanted.setdefault(npu.family, npu)
        if other != npu:
            raise UsageError(f"--npu {other} and --npu {npu} are both for the profile {npu.family.suffix}")
    profiles = {}
    for profile in PROFILES:
        npu_of = wanted.get(profile.npu.family) if profile.npu is not None else None
        profiles[profile.name] = profile if npu_of is None else replace(profile, target=npu_of)
    return profiles
