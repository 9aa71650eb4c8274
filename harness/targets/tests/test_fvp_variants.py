"""FVPs that differ in their parameters, their words, their UART and their end: each run ends in the right way.

No FVP of Arm's is at hand. What varies is what public logs and lists show to vary, and what an FVP could do to binary
frames (docs/targets.md). Below each is our launcher, so a run that goes well is a real one.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from ethos_hil.base.errors import TargetNotAvailable
from ethos_hil.base.testing.recorded import Recorded, plain
from ethos_hil.harness.fvp_stand_in.parameters import PARAMETERS, listing
from ethos_hil.harness.fvp_stand_in.tests.jobs import load
from ethos_hil.harness.image.pack import Image
from ethos_hil.harness.socs.registry import MODELS as FVPS
from ethos_hil.harness.socs.registry import FvpModel
from ethos_hil.harness.targets import fvp, fvp_description, fvp_parameters
from ethos_hil.harness.targets.fvp import FvpTarget
from ethos_hil.harness.targets.fvp_description import complaint, has_reached_time_limit
from ethos_hil.harness.targets.fvp_parameters import FvpListing, Use, settings
from ethos_hil.harness.targets.tests.conftest import MODELS, U55, Install, run_fvp
from ethos_hil.harness.targets.tests.variants import DATA, RUN, FvpVariant

pytestmark = pytest.mark.usefixtures("nothing_left_behind")

BOARD = "mps3_board"


# --- Lists of parameters. ---

NOISE = """
echo "Info: FVP_MPS3_Corstone_SSE_300: telnetterminal0: Listening for serial connection on port 5000"
echo "WARNING: ISAR5.PACBTI parameter is deprecated, use parameter CFGPACBTI"
echo "Warning: license for feature FM_Simulator expires in 3 days"
echo "Sending usage data to telemetry server failed"
printf '\\n    Ethos-U rev 136b7d75 --- Apr 12 2023 13:44:01\\n    (C) COPYRIGHT 2019-2023 Arm Limited\\n'
exec "$launcher" "$@"
"""


VARIANTS = {
    "all parameters": FvpVariant(),
    "no untimed_fifos": FvpVariant((f"{BOARD}.uart0.untimed_fifos",)),
    "no unbuffered_output": FvpVariant((f"{BOARD}.uart0.unbuffered_output",)),
    "no window and no terminal": FvpVariant((f"{BOARD}.visualisation", f"{BOARD}.telnetterminal")),
    "an instance before all names": FvpVariant(prefix="cpu_core."),
    "a list on stderr": FvpVariant(listing='cat "$here/listing" >&2; exit 0'),
    "no lists": FvpVariant(listing="echo 'unrecognised option'; exit 1"),
    "half a list": FvpVariant(listing='head -5 "$here/listing"; kill -SEGV $$'),
    "a list that never ends": FvpVariant(listing="exec sleep 1000"),
    "an empty list": FvpVariant(listing="exit 0"),
    "words on stdout": FvpVariant(body=NOISE),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_it_is_verified_with_the_parameters_that_it_has(
    recorded: Recorded, install: Install, add_image: Image, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Without a list, only the usual parameters are set; what could not be set is a note."""
    monkeypatch.setattr(fvp_description, "_LISTING_SECONDS", 1.0)
    folder = install(VARIANTS[name])
    outcome = run_fvp(add_image)
    (expected,) = load("add", "corstone-300").outputs
    np.testing.assert_array_equal(outcome.runs[0].outputs[0], expected, strict=True)
    assert any("telnetterminal0: Listening" in line for line in outcome.console) == (name == "words on stdout")
    words = (folder / "arguments").read_text().splitlines()
    pairs = (word.partition("=") for option, word in itertools.pairwise(words) if option == "-C")
    values = {name: value for name, _, value in pairs}
    uart = next(name for name in values if name.endswith("uart0.out_file"))
    assert values[uart].endswith("/uart")
    recorded.check({**values, uart: "", "notes": [plain(note, [folder]) for note in outcome.notes]})


def test_each_file_is_asked_once_and_a_new_one_anew(install: Install) -> None:
    questions = install(FvpVariant()) / "questions"
    for _ in range(3):
        FvpTarget("corstone-300", U55)
    assert questions.read_text().split() == ["--version", "--list-params"]
    install(FvpVariant((f"{BOARD}.uart0.out_file",)))
    with pytest.raises(TargetNotAvailable, match="out_file"):
        FvpTarget("corstone-300", U55)


LACKING: dict[str, tuple[tuple[str, ...], bool]] = {
    "the NPU's size": (("ethosu.num_macs",), False),
    "the UART's file": ((f"{BOARD}.uart0.out_file",), False),
    "the NPU's arguments, with --fast": (("ethosu.extra_args",), True),
    "all of another Corstone's": ((), False),
}


@pytest.mark.parametrize("name", LACKING)
def test_a_parameter_that_is_needed_is_named_before_anything_is_lowered(
    recorded: Recorded, install: Install, name: str
) -> None:
    """Also where a file of the right name has the wrong FVP in it."""
    lacking, fast = LACKING[name]
    model = MODELS["corstone-300" if lacking else "corstone-320"]
    folder = install(FvpVariant(lacking), model)
    (folder / model.fvp.executable).rename(folder / MODELS["corstone-300"].fvp.executable)
    with pytest.raises(TargetNotAvailable) as caught:
        FvpTarget("corstone-300", U55, fast=fast)
    recorded.check(caught.value.failure)


@pytest.mark.parametrize("lacking", ["semihosting-enable", "semihosting-cmd_line", "semihosting-heap_limit"])
def test_a_runner_needs_semihosting(install: Install, tmp_path: Path, lacking: str) -> None:
    install(FvpVariant((f"cpu0.{lacking}",)))
    target = FvpTarget("corstone-300", U55)
    with pytest.raises(TargetNotAvailable, match=f"no parameter cpu0.{lacking}, which a run needs"):
        target.boot(b"", "runner", tmp_path, timeout=10.0)


# --- UARTs that are not a plain wire. ---


BUFFERED = """
count=$#
while [ $count -gt 0 ]; do
  case "$1" in *uart0.out_file=*) set -- "$@" "${1%%=*}=$here/raw" ;; *) set -- "$@" "$1" ;; esac
  shift
  count=$((count - 1))
done
"$launcher" "$@" &
child=$!
trap 'kill $child; wait $child; cat "$here/raw" > "$uart"; exit 0' TERM
wait $child
"""
"""Its UART comes when the FVP ends: $here/raw is the launcher's."""


def test_a_uart_that_is_buffered_to_the_end_is_read_at_the_time_limit(install: Install, add_image: Image) -> None:
    install(FvpVariant((f"{BOARD}.uart0.unbuffered_output",), body=BUFFERED))
    outcome = run_fvp(add_image, timeout=4.0)
    assert len(outcome.runs) == 1
    assert fvp._LATE in outcome.notes


def test_what_goes_on_is_told_while_an_fvp_takes_its_time(install: Install, add_image: Image) -> None:
    install(FvpVariant(body=f"sleep 1.3; {RUN}"))
    heard: list[str] = []
    target = FvpTarget("corstone-300", U55, tell=heard.append)
    assert heard == ["Asking FVP_Corstone_SSE-300_Ethos-U55 for its version and parameters"]
    target.listen(heard.append)
    target.load(add_image)
    target.run(timeout=60.0)
    assert heard[1] == "0 bytes from the UART, no frame yet"
    assert 2 <= len(heard) < 10
    FvpTarget("corstone-300", U55, tell=heard.append)
    assert len([line for line in heard if line.startswith("Asking")]) == 1, "each file is asked once"


# --- Lists of parameters as public documents show them, and words. ---


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_every_form_of_line_is_read_and_no_other_text(recorded: Recorded, end: str) -> None:
    text = (DATA / "list.txt").read_text().replace("\n", end)
    recorded.check("\n".join(sorted(FvpListing.parse(text).names)))


def test_lines_of_real_lists_are_read() -> None:
    """Of FVPs of Fast Models 11.22.35, 11.24.13 and 11.31.28, shortened; fvp_listing.py names the source."""
    real = (DATA / "real.txt").read_text()
    parameters = FvpListing.parse(real)
    assert parameters.names == {line.partition("=")[0] for line in real.splitlines()}
    assert parameters.matching("mps3_board.uart0.diagnostics") == (), "an adapter of the UART is not the UART"


def test_what_lists_nothing_is_not_known_and_a_long_line_takes_no_time() -> None:
    for text in ("", "\n\n", "unknown option", "# Parameters:\n#-----\n", "\0\xff", "a." * 500_000):
        assert not FvpListing.parse(text).known
    assert FvpListing.parse("a.b=" + "x" * 1_000_000).names == {"a.b"}


@pytest.mark.parametrize("model", FVPS.values(), ids=lambda model: model.fvp.executable)
def test_the_launchers_own_lists_are_read(model: FvpModel) -> None:
    """And have all that our driver sets: a launcher that lacked one would be driven in another way than an FVP."""
    parameters = FvpListing.parse(listing(model))
    assert len(parameters.names) >= len([row for row in PARAMETERS if row.on(model)])
    for use in Use:
        values = {"macs": "1", "uart": "2", "folder": "3", "command_line": "4"}
        chosen = settings(model.fvp, "", parameters, use, values)
        assert chosen.notes(model.fvp) == ()
        rows = [row for row in fvp_parameters.PARAMETERS if row.use is use]
        assert len(chosen.values) >= len({row.name(model.fvp) for row in rows})


def test_a_name_is_found_behind_another_instance_but_its_own_comes_first() -> None:
    parameters = FvpListing(frozenset({"a.b.c", "x.a.b.c", "y.d.e", "z.d.e", "t1.u", "t22.u", "q.t3.u"}))
    assert parameters.matching("a.b.c") == ("a.b.c",)
    assert parameters.matching("b.c") == ("a.b.c", "x.a.b.c")
    assert parameters.matching("t#.u") == ("t1.u", "t22.u")
    assert parameters.matching("d") == ()


def test_two_candidates_for_a_parameter_are_told_and_none_is_taken() -> None:
    model = FVPS["FVP_Corstone_SSE-300_Ethos-U55"]
    parameters = FvpListing(frozenset({"one.ethosu.num_macs", "two.ethosu.num_macs"}))
    with pytest.raises(TargetNotAvailable, match=r"no parameter ethosu\.num_macs") as caught:
        settings(model.fvp, "", parameters, Use.EVERY_RUN, {"macs": "128"})
    assert "it has one.ethosu.num_macs, two.ethosu.num_macs" in str(caught.value.hint)


def test_only_words_about_a_failure_are_complaints(recorded: Recorded) -> None:
    lines = (DATA / "words.txt").read_text().splitlines()
    recorded.check(
        [(line, complaint(["Fast Models [11.27.42]", line]), has_reached_time_limit([line])) for line in lines]
    )
