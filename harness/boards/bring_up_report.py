"""The steps of `ethos-hil boards bring-up`: what came of each, and of all, as a document and as a text for an issue.

Neither has paths of this machine, its name, or the commands that load and power the board. Serial port and probe's
serial number are in them: they tell boards of a kind apart.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from ethos_hil.base import environment
from ethos_hil.base.dataclasses import dataclass, field
from ethos_hil.base.errors import EthosHilError, UsageError
from ethos_hil.base.plain_text import one_line
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.boards.board import Board


class StepStatus(StrEnum):
    """How a step ended."""

    OK = "ok"
    FAILED = "failed"
    LEFT_OUT = "left out"
    """It could not be made, or makes no sense after another one."""


@dataclass(frozen=True)
class StepFinding:
    """What a step found.

    Attributes:
        text: for people, on one line.
        values: raw values for the report, by name; registers and addresses as hexadecimal text.
        status: how it ended.
        kind: what went wrong, of one that failed.
        remedy: what to do; "" for nothing.
    """

    text: str
    values: Mapping[str, object] = field(default_factory=dict)
    status: StepStatus = StepStatus.OK
    kind: FailureKind | None = None
    remedy: str = ""

    @classmethod
    def left_out(cls, why: str, values: Mapping[str, object] | None = None) -> StepFinding:
        """Return the finding of a step that was not made."""
        return cls(why, values or {}, StepStatus.LEFT_OUT)

    @classmethod
    def failed(
        cls, kind: FailureKind, text: str, remedy: str, values: Mapping[str, object] | None = None
    ) -> StepFinding:
        """Return the finding of a step that went wrong."""
        return cls(text, values or {}, StepStatus.FAILED, kind, remedy)

    @classmethod
    def of(cls, error: EthosHilError) -> StepFinding:
        """Return the finding of a step that an error ended."""
        lines = {"console": list(error.console)} if error.console else {}
        return cls.failed(error.kind, error.message, error.hint or "", lines)


@dataclass(frozen=True)
class BringUpStep:
    """A step that is done.

    Attributes:
        name: of it, such as "probe".
        finding: what it found.
        seconds: that it took, wall time.
        exit_status: of the command, if this is the first step that failed; 0 where it did not.
    """

    name: str
    finding: StepFinding
    seconds: float = 0.0
    exit_status: int = 0

    @property
    def status(self) -> StepStatus:
        """How it ended."""
        return self.finding.status


def status_of(error: EthosHilError) -> int:
    """Return the exit status of a command that fails with a step: only wrong arguments are the user's."""
    return 1 if isinstance(error, UsageError) else error.exit_status


SCHEMA_VERSION = 1
_PRIVATE = ("loading.command", "loading.address", "power")
"""Keys of a board's file that say how the user's machine and network are made."""
_PATH = re.compile(r"(?<![\w.:/])~?/(?!dev/)(?:[\w.@+~-]+/)+(?=[\w.@+-])")
"""The folders of an absolute path, but for devices."""


@dataclass(frozen=True)
class BringUpReport:
    """A finished check.

    Attributes:
        board: the board.
        npu: the NPU that was found; "" for none.
        steps: all steps, in their order.
        firmware_sha256: of the firmware's ELF; "" where there is none.
        created: when, UTC.
    """

    board: Board
    npu: str
    steps: tuple[BringUpStep, ...]
    firmware_sha256: str
    created: str

    @property
    def exit_status(self) -> int:
        """Of the command: that of the first step that failed, or 0."""
        return next((step.exit_status for step in self.steps if step.status is StepStatus.FAILED), 0)

    @property
    def summary(self) -> str:
        """One line: how many steps ended how."""
        counts = {status: sum(step.status is status for step in self.steps) for status in StepStatus}
        counted = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
        return f"{self.board.name}: {len(self.steps)} steps: {counted}"

    def document(self) -> dict[str, Any]:
        """Return all of it as JSON."""
        board = self.board
        document = {
            "schema_version": SCHEMA_VERSION,
            "created": self.created,
            "exit_status": self.exit_status,
            "board": {
                "name": board.name,
                "description": board.description,
                "soc": board.soc.name,
                "simulated": board.simulated,
                "values": {value.key: value.value for value in board.values if not _is_private(value.key)},
            },
            "npu": self.npu,
            "firmware_sha256": self.firmware_sha256,
            "versions": {**environment.versions(), "system": environment.machine()["system"]},
            "steps": [_step(step) for step in self.steps],
        }
        public: dict[str, Any] = _without_paths(document)
        return public

    def markdown(self) -> str:
        """Return all of it as text for an issue."""
        document = self.document()
        lines = [
            f"# Bring-up of {self.board.name}",
            "",
            f"{_cell(one_line(self.board.description))}. {self.summary}.",
            "",
        ]
        lines += ["| step | | found | seconds |", "|---|---|---|---|"]
        for step in document["steps"]:
            kind = f" ({step['kind']})" if step["kind"] else ""
            lines.append(f"| {step['name']} | {step['status']}{kind} | {_cell(step['found'])} | {step['seconds']:g} |")
        lines += ["", f"Made {self.created} with:", ""]
        lines += [f"- {name}: {version}" for name, version in document["versions"].items()]
        lines += [f"- firmware: SHA-256 {self.firmware_sha256 or 'none'}", "", "## Raw values", ""]
        for step in document["steps"]:
            if step["values"]:
                lines += [f"### {step['name']}", "", "```text"]
                lines += [f"{name}: {json.dumps(value)}" for name, value in step["values"].items()]
                lines += ["```", ""]
        values = [f"{value.key}: {value} ({value.tried})" for value in self.board.values if not _is_private(value.key)]
        lines += ["## The board's file", "", "```text", *(_without_paths(one_line(line)) for line in values), "```", ""]
        return "\n".join(lines)


def _step(step: BringUpStep) -> dict[str, Any]:
    finding = step.finding
    return {
        "name": step.name,
        "status": str(finding.status),
        "found": one_line(finding.text),
        "kind": None if finding.kind is None else str(finding.kind),
        "remedy": one_line(finding.remedy) or None,
        "seconds": step.seconds,
        "values": dict(finding.values),
    }


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("`", "'")


def _is_private(key: str) -> bool:
    return any(key == private or key.startswith(f"{private}.") for private in _PRIVATE)


def _without_paths(value: Any) -> Any:
    """Return a document in whose texts a path is only a name."""
    if isinstance(value, str):
        return _PATH.sub("", value)
    if isinstance(value, Mapping):
        return {key: _without_paths(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_paths(item) for item in value]
    return value
