"""Lists of parameters as public documents show them."""

from __future__ import annotations

import pytest

from ethos_hil.harness.fvp_stand_in.parameters import PARAMETERS, listing
from ethos_hil.harness.socs.registry import MODELS, FvpModel
from ethos_hil.harness.targets import fvp_parameters
from ethos_hil.harness.targets.fvp_description import complaint, has_reached_time_limit
from ethos_hil.harness.targets.fvp_parameters import FvpListing, Use, settings

LIST = """
Fast Models [11.27.42 (Oct  9 2024)]
Copyright 2000-2024 ARM Limited.
All Rights Reserved.

# Parameters:
# instance.parameter=value       #(type, mode) default = 'def value' : description : [min..max]
#------------------------------------------------------------------------------
core_clk.mul=25000000                                 # (int   , init-time) default = '0x17d7840' : Clock rate
cpu0.semihosting-cmd_line=""                          # (string, init-time) default = ''    : Command line = what
cpu0.semihosting-Thumb_SVC=171                        # (int   , init-time) default = '0xAB' : SVC : [0x0..0xFF]
mps3_board.uart0.out_file=-   # (string, init-time) default = '' : Output file (use '-' to send all output to stdout)
mps3_board.uart0.shutdown_tag="a # b=c"               # (string, run-time ) default = ''    : Shutdown tag
    mps3_board.uart0.untimed_fifos = 0
\tmps3_board.visualisation.disable-visualisation      # (bool  , init-time)
TRACE.GenericTrace.trace-sources[3]=
-C ethosu.num_macs=128
cache_state_modelled=0                                # (bool, init-time) default = '1' : of no instance
telnetterminal0: Listening for serial connection on port 5000
Warning: a.b is not c.d=1
libc.so.6
"""
NAMES = {
    *("core_clk.mul", "cpu0.semihosting-cmd_line", "cpu0.semihosting-Thumb_SVC", "mps3_board.uart0.out_file"),
    *("mps3_board.uart0.shutdown_tag", "mps3_board.uart0.untimed_fifos", "ethosu.num_macs"),
    *("mps3_board.visualisation.disable-visualisation", "TRACE.GenericTrace.trace-sources[3]"),
}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_every_form_of_line_is_read_and_no_other_text(end: str) -> None:
    assert FvpListing.parse(LIST.replace("\n", end)).names == NAMES


REAL = """
ethosu.num_macs=128                                   # (int   , init-time) default = '0x80'   : Number of 8x8 MACs
mps3_board.stub_timing_adapter.failmsg=               # (string, init-time) default = ''       : String if 'fail'=true
mps3_board.stub_timing_adapter.periph_framesize=-1    # (int   , init-time) default = '0xffffffffffffffff' : (4/64)
mps3_board.uart0_adapter_rx.diagnostics=0             # (int   , run-time ) default = '0x0'    : Diagnostics
mps4_board.subsystem.ethosu.num_macs=256              # (int   , init-time) default = '0x100'  : MACs. : [0x100:0x200]
"""
"""Of FVPs of Fast Models 11.22.35, 11.24.13 and 11.31.28, shortened; fvp_listing.py names the source."""


def test_lines_of_real_lists_are_read() -> None:
    parameters = FvpListing.parse(REAL)
    assert parameters.names == {line.partition("=")[0] for line in REAL.split("\n") if line}
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


# --- Words. ---


@pytest.mark.parametrize(
    "line",
    [
        "Error: license error: License checkout for feature FM_Simulator with version 11.15 has been denied by Flex",
        "FlexNet Licensing error:-5,357",
        "No license found for this product",
    ],
)
def test_words_about_a_licence(line: str) -> None:
    trouble = complaint(["Fast Models [11.27.42]", line])
    assert trouble is not None
    assert trouble.kind == "licence"


@pytest.mark.parametrize(
    "line",
    [
        "Info: FVP_MPS3_Corstone_SSE_300: telnetterminal0: Listening for serial connection on port 5000",
        "telnetterminal5: Listening for serial connection on port 5003",
        "    Ethos-U rev 136b7d75 --- Apr 12 2023 13:44:01",
        "    (C) COPYRIGHT 2019-2023 Arm Limited",
        "WARNING: ISAR5.PACBTI parameter is deprecated, use parameter CFGPACBTI",
        "Warning: Failed to write bytes at address range [0x00080000..0x002B2B07] when loading image",
        "xterm: Xt error: Can't open display:",
        "Info: /OSCI/SystemC: Simulation stopped by user.",
        "[warning ][main@0][01 ns] Simulation stopped by user",
        "Warning: license for feature X expires in 3 days",
    ],
)
def test_words_that_say_nothing_about_a_failure(line: str) -> None:
    assert complaint([line]) is None
    assert not has_reached_time_limit([line])
