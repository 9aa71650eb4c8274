"""The suites' command line options, and what they come to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from ethos_hil.harness.targets.plugin import TargetOption
from ethos_hil.harness.targets.registry import check_name, check_option, find_plugin
from ethos_hil.lowering.errors import UsageError
from ethos_hil.lowering.memory_mode import MemoryMode
from ethos_hil.lowering.npu_name import NpuName
from ethos_hil.results.store import DEFAULT_ROOT, new_name
from ethos_hil.suites.declare.profile import PROFILES, Profile, parse
from ethos_hil.suites.declare.settings import SessionSettings


@dataclass(frozen=True)
class Options:
    """What is asked of a session.

    Attributes:
        profiles: every profile by its name, for the NPU that is asked for.
        suffixes: the names of those whose tests are run; none for all.
        one_in: of each file's cases, run every so many-th, the first among them.
        settings: for each test.
        artifacts: folder for all that is known of a test that fails.
        runs: folder of run folders, which keep the records.
        run: the name of this session's run folder.
    """

    profiles: Mapping[str, Profile]
    suffixes: frozenset[str]
    one_in: int
    settings: SessionSettings
    artifacts: Path | None
    runs: Path
    run: str

    @classmethod
    def of(cls, config: pytest.Config) -> Options:
        """From the command line.

        Raises:
            pytest.UsageError: they name something that is not there, or contradict one another.
        """
        try:
            return cls._of(config)
        except UsageError as error:
            raise pytest.UsageError(": ".join(filter(None, (error.message, error.hint)))) from None

    @classmethod
    def _of(cls, config: pytest.Config) -> Options:
        given: Any = config.getoption
        target = given("--target")
        check_name(target)
        if given("--strict-waits"):
            check_option(find_plugin(target), TargetOption.STRICT, "--strict-waits")
        if given("--record") and given("--replay"):
            raise UsageError("--record runs tests and --replay does not", hint="give one of them")
        if given("--compile-only") and (given("--record") or given("--replay")):
            raise UsageError("--compile-only runs nothing that could be recorded or replayed", hint="leave one out")
        if given("--one-in") < 1:
            raise UsageError(f"--one-in {given('--one-in')} selects nothing", hint="1 selects all")
        replay = _folder(given("--replay"))
        if replay is not None and not replay.is_dir():
            raise UsageError(f"--replay {replay} is no folder", hint="record one with --record")
        mode = given("--memory-mode")
        worker: Mapping[str, Any] = getattr(config, "workerinput", {})  # what xdist's controller tells its workers
        return cls(
            profiles=_profiles(given("--npu")),
            suffixes=frozenset(parse(text).name for text in given("--suffix")),
            one_in=given("--one-in"),
            settings=SessionSettings(
                target=None if given("--compile-only") else target,
                memory_mode=None if mode is None else MemoryMode.parse(mode).name,
                strict=given("--strict-waits"),
                record=_folder(given("--record")),
                replay=replay,
                root=config.rootpath,
            ),
            artifacts=_folder(given("--artifacts")),
            runs=Path(given("--runs")).absolute(),
            run=worker.get(RUN, "") or new_name(),
        )


RUN = "ethos_hil_run"
"""Key under which xdist's workers are told the name of the run folder."""
OPTIONS = pytest.StashKey[Options]()
"""Of the configuration."""


def add(parser: pytest.Parser) -> None:
    """The options of the suites."""
    group = parser.getgroup("ethos-hil", "operators and models on Arm Ethos-U")
    names = "MI (or FP), BI (or INT), U55_BI, U65_BI, U85_BI"
    option = group.addoption
    option("--suffix", action="append", default=[], metavar="PROFILE", help=f"run tests of {names}; repeatable")
    option("--npu", action="append", default=[], metavar="NPU", help="configuration of its family's tests; repeatable")
    option("--memory-mode", metavar="MODE", help="by Vela's name; by default ExecuTorch's for the NPU")
    option("--target", default="virtual", help="where NPU profiles run; `ethos-hil targets` lists them")
    option("--strict-waits", action="store_true", help="fail where a command stream lacks a wait")
    option("--compile-only", action="store_true", help="run nothing; no test is verified then")
    option("--one-in", type=int, default=1, metavar="N", help="run every Nth case of each file only")
    option("--artifacts", metavar="DIR", help="keep all that is known of a test that fails")
    option("--record", metavar="DIR", help="keep what the targets answer, for --replay")
    option("--replay", metavar="DIR", help="judge recorded answers; nothing is lowered or run")
    option("--runs", default=str(DEFAULT_ROOT), metavar="DIR", help="where records are kept (%(default)s)")


def _folder(text: str | None) -> Path | None:
    return None if text is None else Path(text).absolute()


def _profiles(npus: list[str]) -> dict[str, Profile]:
    wanted: dict[str, NpuName] = {}
    for npu in map(NpuName.parse, npus):
        other = wanted.setdefault(npu.family, npu)
        if other != npu:
            raise UsageError(f"--npu {other} and --npu {npu} are both for the profile {npu.family.upper()}_BI")
    found = {}
    for profile in PROFILES:
        npu_of = wanted.get(profile.npu.family) if profile.npu is not None else None
        found[profile.name] = profile if npu_of is None else replace(profile, target=npu_of)
    return found
