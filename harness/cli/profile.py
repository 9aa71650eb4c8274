"""`ethos-hil profile`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

from ethos_hil.base.errors import UsageError
from ethos_hil.harness.ask.default_npu import npu_of
from ethos_hil.harness.cli import profile_options, quantisation_options
from ethos_hil.harness.cli.clock_option import CLOCK, asked_clock
from ethos_hil.harness.cli.model_options import (
    AS_UPSTREAM,
    DEBUG,
    INPUTS,
    LEAVE,
    MEMORY_MODE,
    NPU,
    RUNS,
    TARGET,
    TRUST_MODEL,
)
from ethos_hil.harness.cli.vela_options import ARENA_CACHE_SIZE, OPTIMISE, SYSTEM_CONFIG, VELA_FLAG, VELA_INI, asked

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import RenderableType

    from ethos_hil.base.record import Record
    from ethos_hil.harness.profile.view import By, Sort

_Word = TypeVar("_Word", bound=StrEnum)


def profile(
    model: profile_options.MODEL = None,
    npu: NPU = None,
    target: TARGET = "virtual",
    method: profile_options.METHOD = None,
    events: profile_options.EVENTS = None,
    repeat: profile_options.REPEAT = None,
    by: profile_options.BY = "module",
    sort: profile_options.SORT = None,
    depth: profile_options.DEPTH = 2,
    top: profile_options.TOP = 25,
    memory_mode: MEMORY_MODE = None,
    system_config: SYSTEM_CONFIG = None,
    vela_ini: VELA_INI = None,
    optimise: OPTIMISE = None,
    arena_cache_size: ARENA_CACHE_SIZE = None,
    vela_flag: VELA_FLAG = None,
    inputs: INPUTS = None,
    program_method: profile_options.PROGRAM_METHOD = None,
    scheme: quantisation_options.SCHEME = "a8w8",
    calibrate: quantisation_options.CALIBRATE = None,
    int16: quantisation_options.INT16 = None,
    quantizer: quantisation_options.QUANTIZER = None,
    leave: LEAVE = None,
    timeout: profile_options.TIMEOUT = 600.0,
    source: profile_options.FROM = None,
    json_file: profile_options.JSON = None,
    out: profile_options.OUT = None,
    clock: CLOCK = None,
    runs: RUNS = Path("results/runs"),
    as_upstream: AS_UPSTREAM = False,
    trust_model: TRUST_MODEL = False,
    debug: DEBUG = False,
) -> None:
    """Run MODEL, verify it, and show where its cycles go: by module, by line, by kind of operation, or one by one.

    Exit status as for `run`.

    Example: ethos-hil profile net.py:net --npu ethos-u85-256 --by line

    Example: ethos-hil profile net.py:net --target corstone-300 --method prefix --json profile.json
    """
    from ethos_hil.harness.ask.quantisation_options import QuantisationOptions, parse_scheme
    from ethos_hil.harness.ask.request import RunRequest
    from ethos_hil.harness.cli import commands, profile_folder
    from ethos_hil.harness.cli.export import kept_record
    from ethos_hil.harness.profile.options import ProfileMethod, ProfileOptions
    from ethos_hil.harness.profile.pmu import DEFAULT_EVENTS, event_numbers
    from ethos_hil.harness.profile.view import By, Sort
    from ethos_hil.results.latency import with_latency

    groups, stated = _word("--by", by, By), asked_clock(clock)
    order = _word("--sort", sort, Sort) if sort is not None else Sort.PROGRAM if groups is By.MODULE else Sort.CYCLES

    def text(record: Record) -> RenderableType:
        return _text(record, groups, order, depth, top)

    if (model is None) == (source is None):
        raise UsageError("give a model, or --from with a record", hint="ethos-hil profile net.py:net")
    if out is not None:
        profile_folder.check(out)
    if model is None:
        assert source is not None
        kept = kept_record(source)
        kept = kept if stated is None else with_latency(kept, stated)
        raise typer.Exit(_show(kept, json_file, out, text))
    names = tuple(events or DEFAULT_EVENTS)
    event_numbers(names)  # wrong ones are said before anything is lowered
    request = RunRequest(
        model,
        npu_of(npu, target),
        target,
        memory_mode,
        asked(system_config, vela_ini, optimise, arena_cache_size, vela_flag),
        parse_scheme(scheme),
        method=program_method,
        inputs=inputs,
        repeat=repeat,
        timeout=timeout,
        quantisation=QuantisationOptions(calibrate, tuple(int16 or ()), quantizer),
        leave=tuple(leave or ()),
        as_upstream=as_upstream,
        trust_model=trust_model,
        profile=ProfileOptions(_word("--method", method, ProfileMethod) if method is not None else None, names),
        clock=stated,
    )
    files = commands.RunFiles(json_file, None, runs, out)
    raise typer.Exit(commands.run(request, files, text=text))


def _text(record: Record, by: By, sort: Sort, depth: int, top: int) -> RenderableType:
    """Return the text of a profile, with where its modelled cycles come from."""
    from rich.console import Group

    from ethos_hil.harness.cli.timing_rules import timing_rules
    from ethos_hil.harness.show.profile import profile as rendered
    from ethos_hil.harness.show.rules import modelled_by

    shown = rendered(record, by=by, sort=sort, depth=depth, top=top)
    return Group(shown, *modelled_by(record, timing_rules()))


def _show(record: Record, json_file: Path | None, out: Path | None, text: Callable[[Record], RenderableType]) -> int:
    """Write and show a record that was taken before. Return the exit status."""
    from ethos_hil.base.ending import ending_of
    from ethos_hil.harness.cli import commands, profile_folder
    from ethos_hil.harness.terminal.console import console

    if json_file is not None:
        commands.write_json(json_file, record.to_json())
    if out is not None:
        profile_folder.write(record, _etrecord(record), out)
    if json_file != Path("-"):
        console().print(text(record))
    return 0 if ending_of(record).green else 1


def _etrecord(record: Record) -> bytes:
    """Return the ETRecord of the program of a record, if the cache still has it."""
    from ethos_hil.harness.verdict.artifact_info import cached
    from ethos_hil.lowering.cache.store import Cache

    known = None if record.artifact is None else cached(record.artifact, Cache())
    return b"" if known is None else known.etrecord


def _word(option: str, given: str, words: type[_Word]) -> _Word:
    """Return a word of an option. Raises UsageError, which lists the words."""
    try:
        return words(given)
    except ValueError:
        raise UsageError(f"{option} is {given!r}", hint=f"it takes: {', '.join(words)}") from None
