"""The text in a bundle for somebody who has never seen one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ethos_hil.base.plain_text import escaped, one_line
from ethos_hil.base.question import Question
from ethos_hil.base.record import Record
from ethos_hil.harness.bundle.outcome_words import ended, ended_alike
from ethos_hil.lowering.artifact import Artifact

_MEMBERS: Mapping[str, str] = {
    "artifact/model.pte": "the program, as ExecuTorch writes it",
    "artifact/": "what is known of it: each delegate's TOSA and compiled form, the map to source lines",
    "inputs.npz": "its inputs, for `ethos-hil run --inputs`",
    "expected.npz": "the outputs that are right, for `ethos-hil run --expected`",
    "image.elf": "the firmware with both in it, for a debugger or a board; `ethos-hil run` never boots it",
    "record.json": "what the run kept: verdict, failure, cycles, versions",
    "again.json": "the same of the run that was made for this bundle",
    "recording.json": "what the target answered in that run, with recording.npz",
    "reference.json": "what the reference answered, with reference.npz",
    "manifest.json": "the size and SHA-256 of each file, and what was asked",
}


def readme(
    record: Record, again: Record | None, question: Question, soc: str, artifact: Artifact, names: Sequence[str]
) -> str:
    """Return the text.

    Args:
        record: as the run kept it.
        again: the record of the run that was made for the bundle, or None.
        question: what was asked.
        soc: name of the target's system on chip.
        artifact: the program.
        names: of the other members.
    """
    lines = [
        f"One run of ethos-hil: {question.label} for {question.npu} on {question.target} {soc}",
        *([f"of the test {record.test.id}"] if record.test is not None else []),
        f"that ended as {one_line(ended(record))}",
        "",
        "Show it again, with the name of this file, on any machine that has ethos-hil:",
        "",
        "    ethos-hil run failure.zip",
        "",
        "It needs QEMU, and neither the model nor a board. Nothing in this file is executed on your machine itself:",
        "the program runs on the virtual board, with the firmware that you have.",
    ]
    if "recording.json" in names:
        lines += ["Without QEMU, the answer that was recorded is judged again: ethos-hil run failure.zip --replay"]
    if again is not None and not ended_alike(record, again):
        lines += ["", f"It did not end alike when this file was made: {one_line(ended(again))}"]
    lines += ["", f"program  SHA-256 {artifact.sha256}"]
    lines += [f"versions {', '.join(f'{name} {text}' for name, text in sorted(record.versions.items()))}", ""]
    for name, what in _MEMBERS.items():
        if name in names or name == "manifest.json" or (name.endswith("/") and any(name in each for each in names)):
            lines.append(f"{name:20}{what}")
    return "".join(f"{escaped(line)}\n" for line in lines)
