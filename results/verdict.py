"""The words for how a run ended: its verdict, and the kind of a failure. docs/formats.md lists the same words."""

from __future__ import annotations

import enum


class Verdict(enum.StrEnum):
    """How a run ended. Only `VERIFIED` is green; `harness.verdict.decide` says which one a run gets."""

    VERIFIED = "verified"
    """It ran, and every output was compared with its reference."""
    COMPILED_ONLY = "compiled-only"
    """It was lowered; the user asked for no more."""
    SKIPPED = "skipped"
    """It could not run: the failure names the capability that is missing."""
    FAILED = "failed"
    """It went wrong: the failure says how."""


class FailureKind(enum.StrEnum):
    """What went wrong, as a stable word for programs. A word is added, never changed."""

    # The answer.
    MISMATCH = "mismatch"
    """An output differs from its reference."""
    NO_REFERENCE = "no-reference"
    """The reference is missing, or it gave no valid answer."""
    NO_BOUND = "no-bound"
    """In profiles MI and BI: how far the answers may differ is not known."""

    # The run on a target.
    FAULT = "fault"
    """A CPU exception, an NPU fault, or an error that a runner reports."""
    TIMEOUT = "timeout"
    """The run did not end in time."""
    CRASHED = "crashed"
    """The simulator ended."""
    LINK = "link"
    """Frames are damaged, missing or incomplete."""
    STALE_OUTPUT = "stale-output"
    """The answer belongs to another run."""
    MISSING_OUTPUT = "missing-output"
    """A runner left no output file."""
    DAMAGED_OUTPUT = "damaged-output"
    """A runner's output file has the wrong size."""
    WRONG_PROGRAM = "wrong-program"
    """The device runs another image or program, or the firmware is for another board."""
    OUT_OF_MEMORY = "out-of-memory"
    """The program does not fit."""
    UNSUPPORTED = "unsupported"
    """The firmware lacks an operator, or the functional NPU does not know an operation's arithmetic."""
    NPU_MISMATCH = "npu-mismatch"
    """The program is for another NPU, memory mode or command stream version."""
    HAZARD = "hazard"
    """With --strict: the NPU's command stream lacks a wait."""
    PARSE = "parse"
    """Of the functional NPU: the command stream is not valid."""
    BUS = "bus"
    """Of the functional NPU: an access outside of a region, or a write to a read-only one."""

    # Before the run.
    USAGE = "usage"
    """The arguments or the model cannot be used."""
    COMPILE = "compile"
    """The model cannot be exported, quantised or compiled."""
    NOT_AVAILABLE = "not-available"
    """A tool is missing or does not work."""
    NOT_LAUNCHED = "not-launched"
    """The target did not start."""
    LICENCE = "licence"
    """An FVP lacks its licence."""
    CACHE = "cache"
    """The cache of lowered models cannot be used."""
    INTERNAL = "internal"
    """A defect of the harness."""

    # The suites.
    CAPABILITY = "capability"
    """The target, the firmware or the environment lacks what the test needs. The verdict is `SKIPPED`."""
    DELEGATION = "delegation"
    """Other operators were delegated than the test declares."""
    UNMAPPED = "unmapped"
    """An NPU operation has no operator of the model."""
    DECLARATION = "declaration"
    """The test is right, though its declaration says that it cannot be."""
    NO_RECORDING = "no-recording"
    """There is no recording to replay."""
    STALE_RECORDING = "stale-recording"
    """The recording answers another question."""
    DAMAGED_RECORDING = "damaged-recording"
    """The recording cannot be read."""
    RECORDING = "recording"
    """A recording cannot be written."""
    RECORDS = "records"
    """A record cannot be written."""

    OTHER = "other"
    """A word that a later version of this program wrote; the message begins with it."""
