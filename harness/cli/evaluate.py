"""`ethos-hil evaluate`."""

from __future__ import annotations

from pathlib import Path

import typer

from ethos_hil.harness.cli import evaluate_options, quantisation_options
from ethos_hil.harness.cli.model_options import (
    AS_UPSTREAM,
    DEBUG,
    LEAVE,
    MEMORY_MODE,
    METHOD,
    MODEL,
    NPU,
    TARGET,
    TRUST_MODEL,
)
from ethos_hil.harness.cli.vela_options import ARENA_CACHE_SIZE, OPTIMISE, SYSTEM_CONFIG, VELA_FLAG, VELA_INI, asked

_STDOUT = Path("-")


def evaluate(
    model: MODEL,
    data: evaluate_options.DATA,
    npu: NPU = None,
    target: TARGET = "virtual",
    metric: evaluate_options.METRIC = None,
    limit: evaluate_options.LIMIT = None,
    jobs: evaluate_options.JOBS = None,
    try_int16: evaluate_options.TRY_INT16 = 0,
    memory_mode: MEMORY_MODE = None,
    system_config: SYSTEM_CONFIG = None,
    vela_ini: VELA_INI = None,
    optimise: OPTIMISE = None,
    arena_cache_size: ARENA_CACHE_SIZE = None,
    vela_flag: VELA_FLAG = None,
    scheme: quantisation_options.SCHEME = "a8w8",
    calibrate: quantisation_options.CALIBRATE = None,
    int16: quantisation_options.INT16 = None,
    quantizer: quantisation_options.QUANTIZER = None,
    leave: LEAVE = None,
    method: METHOD = None,
    timeout: evaluate_options.TIMEOUT = 120.0,
    json_file: evaluate_options.JSON = None,
    as_upstream: AS_UPSTREAM = False,
    trust_model: TRUST_MODEL = False,
    debug: DEBUG = False,
) -> None:
    """Score MODEL on a data set: in float, quantised, and on the device, each answer checked bit for bit.

    Exit status: 0 every item was answered as tosa_reference_model answers it, 1 one was not, 2 unusable arguments,
    model or data (what was done until then is shown), 3 target or tool not available.

    Example: ethos-hil evaluate net.py:net --data net.py:test_set --limit 1000
    """
    from ethos_hil.harness.ask.default_npu import npu_of
    from ethos_hil.harness.ask.quantisation_options import QuantisationOptions, parse_scheme
    from ethos_hil.harness.ask.request import RunRequest
    from ethos_hil.harness.cli.commands import check_written, never_exiting, write_json
    from ethos_hil.harness.evaluate.evaluation import EvaluationRequest
    from ethos_hil.harness.evaluate.evaluation import evaluate as evaluate_request
    from ethos_hil.harness.evaluate.summary import document, text
    from ethos_hil.harness.terminal.console import console
    from ethos_hil.harness.terminal.progress import Live
    from ethos_hil.lowering.cache.settings import prepare_torch

    vela = asked(system_config, vela_ini, optimise, arena_cache_size, vela_flag)
    run = RunRequest(
        model,
        npu_of(npu, target),
        target,
        memory_mode,
        vela,
        parse_scheme(scheme),
        method=method,
        timeout=timeout,
        quantisation=QuantisationOptions(calibrate, tuple(int16 or ()), quantizer),
        leave=tuple(leave or ()),
        as_upstream=as_upstream,
        trust_model=trust_model,
    )
    request = EvaluationRequest(run, data, metric, limit, jobs, try_int16)
    check_written(run, {"--json": json_file})
    prepare_torch()
    with Live() as live, never_exiting():
        live.stage(f"Loading {model}")
        found = evaluate_request(request, live)
    if json_file is not None:
        write_json(json_file, document(found))
    if json_file != _STDOUT:
        console().print(text(found))
    if found.stopped is not None:
        raise found.stopped
    raise typer.Exit(0 if found.verified else 1)
