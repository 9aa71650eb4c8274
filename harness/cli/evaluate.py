"""`ethos-hil evaluate`."""

from __future__ import annotations

import typer

from ethos_hil.base.asking import EVALUATE
from ethos_hil.base.question import Question
from ethos_hil.harness.cli import evaluate_options
from ethos_hil.harness.cli.asking import asks
from ethos_hil.harness.cli.common_options import DEBUG
from ethos_hil.harness.cli.destinations import STDOUT


@asks(EVALUATE)
def evaluate(
    question: Question,
    data: evaluate_options.DATA,
    metric: evaluate_options.METRIC = None,
    limit: evaluate_options.LIMIT = None,
    jobs: evaluate_options.JOBS = None,
    try_int16: evaluate_options.TRY_INT16 = 0,
    json_file: evaluate_options.JSON = None,
    debug: DEBUG = False,
) -> None:
    """Score MODEL on a data set: in float, quantised, and on the device, each answer checked bit for bit.

    Exit status: 0 every item was answered as tosa_reference_model answers it, 1 one was not, 2 unusable arguments,
    model or data (what was done until then is shown), 3 target or tool not available.

    Example: ethos-hil evaluate net.py:net --data net.py:test_set --limit 1000
    """
    from ethos_hil.harness.cli.commands import check_written, never_exiting, write_json
    from ethos_hil.harness.evaluate.evaluation import EvaluationOrder
    from ethos_hil.harness.evaluate.evaluation import evaluate as evaluate_order
    from ethos_hil.harness.evaluate.summary import document, text
    from ethos_hil.harness.terminal.console import console
    from ethos_hil.harness.terminal.progress import Live
    from ethos_hil.lowering.cache.settings import prepare_torch

    order = EvaluationOrder(question, data, metric, limit, jobs, try_int16)
    check_written(question, {"--json": json_file})
    prepare_torch()
    with Live() as live, never_exiting():
        live.stage(f"Loading {question.label}")
        found = evaluate_order(order, live)
    if json_file is not None:
        write_json(json_file, document(found))
    if json_file != STDOUT:
        console().print(text(found))
    if found.stopped is not None:
        raise found.stopped
    raise typer.Exit(0 if found.verified else 1)
