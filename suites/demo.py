"""`make demo`: a digit classifier, trained here, on a virtual Corstone-300 with an Ethos-U55-128.

It prints the accuracy in float, quantised on the host, and on the device, and the profile of the device run. Host and
device must agree on every digit, not only on average.
"""

from __future__ import annotations

import numpy as np

from ethos_hil.base.console import console, right, table_of
from ethos_hil.base.judge import ending_of
from ethos_hil.base.question import Question
from ethos_hil.harness.cli.main import guard
from ethos_hil.harness.run import run
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.results.text.record import summary

MODEL = "ethos_hil.suites.models.digits:digits"


def main() -> int:
    """Run the demo. Return 0 if the device agrees with the host on every output, otherwise the exit status of
    `ethos-hil run`.
    """
    import torch

    from ethos_hil.suites.models import digits  # imports torch: late, so that a missing tool is reported first

    with Live() as live:
        live.stage("Training the digit classifier")
        _, held_out = digits.data()
        model = digits.train()
        with torch.no_grad():
            floating = model(held_out.images).argmax(1).numpy()
        images = tuple((image[None],) for image in held_out.images.numpy())
        report = run(Question(MODEL, inputs=images), reporter=live)
    labels = held_out.labels.numpy()
    host = np.array([reference.outputs[0].argmax() for reference in report.references])
    device = np.array([outcome.outputs[0].argmax() for outcome in report.outcome.runs])

    stdout = console()
    stdout.print(summary(report.record))
    table = table_of("accuracy", *right("correct"), "")
    for name, answers in (("float, PyTorch", floating), ("quantised, host", host), ("quantised, device", device)):
        correct = int((answers == labels).sum())
        table.add_row(name, f"{correct} of {len(labels)}", f"{correct / len(labels):.1%}")
    stdout.print("", table)
    agreeing = int((host == device).sum())
    stdout.print(f"host and device agree on {agreeing} of {len(labels)} digits")
    return 0 if ending_of(report.record).green and agreeing == len(labels) else 1


if __name__ == "__main__":
    guard(main)
