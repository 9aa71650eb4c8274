"""Lists of parameters as public documents show them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.fvp_stand_in.parameters import PARAMETERS, listing
from ethos_hil.harness.socs.registry import MODELS, FvpModel
from ethos_hil.harness.targets import fvp_parameters
from ethos_hil.harness.targets.fvp_description import complaint, has_reached_time_limit
from ethos_hil.harness.targets.fvp_parameters import FvpListing, Use, settings

DATA = Path(__file__).parent / "data"


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


def test_what_lists_nothing_is_not_known() -> None:
    for text in ("", "\n\n", "unrecognised option '--list-params'", "# Parameters:\n#-----\n", "\0\xff"):
        assert not FvpListing.parse(text).known


def test_a_long_line_takes_no_time() -> None:
    assert not FvpListing.parse("a." * 500_000).known
    assert FvpListing.parse("a.b=" + "x" * 1_000_000).names == {"a.b"}


@pytest.mark.parametrize("model", MODELS.values(), ids=lambda model: model.fvp.executable)
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
    model = MODELS["FVP_Corstone_SSE-300_Ethos-U55"]
    parameters = FvpListing(frozenset({"one.ethosu.num_macs", "two.ethosu.num_macs"}))
    with pytest.raises(Exception, match=r"no parameter ethosu\.num_macs") as caught:
        settings(model.fvp, "", parameters, Use.EVERY_RUN, {"macs": "128"})
    assert "it has one.ethosu.num_macs, two.ethosu.num_macs" in str(getattr(caught.value, "hint", ""))


def test_only_words_about_a_failure_are_complaints(recorded: Recorded) -> None:
    lines = (DATA / "words.txt").read_text().splitlines()
    recorded.check(
        [(line, complaint(["Fast Models [11.27.42]", line]), has_reached_time_limit([line])) for line in lines]
    )
