"""`ethos-hil evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ethos_hil.base.asking import EVALUATE
from ethos_hil.base.question import Question
from ethos_hil.harness.cli.asking import DEBUG, MERGE, RESUME, RUN_NAME, RUNS, SHARD, asks, file_option
from ethos_hil.harness.cli.destinations import STDOUT, write_json


@asks(EVALUATE)
def evaluate(
    question: Question,
    data: Annotated[
        str,
        typer.Option(
            metavar="FILE.py:FUNCTION",
            help="A function that returns the data set: a torch Dataset, a list or a generator of pairs (inputs, "
            "label).",
        ),
    ],
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="METRIC",
            help="top1, top5, mae, or a function of (outputs, label) as file.py:function. Default: top1 where labels "
            "are whole numbers, else mae.",
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="Items at most. Default: all.")] = None,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", "-j", min=1, metavar="N", help="Virtual boards at a time. Default: one a processor."),
    ] = None,
    run_name: RUN_NAME = None,
    resume: RESUME = None,
    shard: SHARD = None,
    merge: MERGE = None,
    runs: RUNS = Path("results/runs"),
    json_file: Annotated[Path | None, file_option("--json", "the result there")] = None,
    debug: DEBUG = False,
) -> None:
    """Score MODEL on a data set: in float, quantised, and on the device, each answer checked bit for bit.

    A run folder is kept where it is named, or where the items are divided. The data set has to give the same items
    each time.

    Exit status: 0 every item was answered as tosa_reference_model answers it, 1 one was not, 2 unusable arguments,
    model or data (what was done until then is shown), 3 target or tool not available, or a shard or an answer is
    missing.

    Example: ethos-hil evaluate net.py:net --data net.py:test_set --limit 1000
    """
    from ethos_hil.base.console import console
    from ethos_hil.harness.campaign.place import RunPlace
    from ethos_hil.harness.cli.commands import check_written, loading
    from ethos_hil.harness.evaluate.evaluation import EvaluationOrder, document, text
    from ethos_hil.harness.evaluate.evaluation import evaluate as evaluate_order

    order = EvaluationOrder(question, data, metric, limit, jobs)
    check_written(question, {"--json": json_file})
    place = RunPlace.of(runs, run_name, resume, shard, merge, always=False)
    with loading(question.label) as live:
        result = evaluate_order(order, live, place)
    if json_file is not None:
        write_json(json_file, document(result))
    if json_file != STDOUT:
        console().print(text(result))
    if result.stopped is not None:
        raise result.stopped
    raise typer.Exit(0 if result.verified else 1)
