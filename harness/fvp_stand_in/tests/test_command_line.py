"""The FVP's command line: lines of public scripts are understood, and errors are named."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from ethos_hil.harness.fvp_stand_in.command_line import (
    Action,
    CommandLineError,
    DataFile,
    DumpFile,
    LaunchSettings,
    UartSettings,
    parse,
)
from ethos_hil.harness.fvp_stand_in.parameters import PARAMETERS, Treatment, listing
from ethos_hil.harness.fvp_stand_in.tests.conftest import (
    CORSTONE_300_U55,
    CORSTONE_300_U65,
    CORSTONE_310_U55,
    CORSTONE_320,
)
from ethos_hil.harness.socs.registry import MODELS, FvpModel
from ethos_hil.harness.virtual.semihosting import HeapInfo, Semihosting


def settings(model: FvpModel, text: str) -> LaunchSettings:
    parsed = parse(model, shlex.split(text))
    assert isinstance(parsed, LaunchSettings)
    return parsed


def refused(text: str, model: FvpModel = CORSTONE_300_U55) -> str:
    with pytest.raises(CommandLineError) as caught:
        parse(model, shlex.split(text))
    return str(caught.value)


def test_upstreams_line_for_corstone_300(tmp_path: Path) -> None:
    """As backends/arm/test/runner_utils.py writes it; there, no shell removes the quotes."""
    parsed = parse(
        CORSTONE_300_U55,
        [
            *("-C", "ethosu.num_macs=128", "-C", "mps3_board.visualisation.disable-visualisation=1"),
            *("-C", "mps3_board.telnetterminal0.start_telnet=0", "-C", "mps3_board.uart0.out_file='-'"),
            *("-C", "cpu0.semihosting-enable=1", "-C", "cpu0.semihosting-stack_base=0"),
            *("-C", "cpu0.semihosting-heap_limit=0", "-C", f"cpu0.semihosting-cwd={tmp_path}"),
            *("-C", "ethosu.extra_args='--fast'"),
            *("-C", "cpu0.semihosting-cmd_line='executor_runner -m program.pte -o out -i i0.bin'"),
            *("-a", "/some/arm_executor_runner", "--timelimit", "120"),
        ],
    )
    command_line = "executor_runner -m program.pte -o out -i i0.bin"
    assert parsed == LaunchSettings(
        model=CORSTONE_300_U55,
        npu="ethos-u55-128",
        application=Path("/some/arm_executor_runner"),
        data=(),
        dumps=(),
        boot=0x10000000,
        semihosting=Semihosting(command_line, tmp_path, HeapInfo(0, 0, 0, 0x20700000)),
        uart=UartSettings("-"),
        seconds=120.0,
        simulated=False,
        quiet=False,
        statistics=False,
    )


def test_upstreams_line_for_corstone_320(tmp_path: Path) -> None:
    parsed = settings(
        CORSTONE_320,
        "-C mps4_board.subsystem.ethosu.num_macs=128 -C mps4_board.visualisation.disable-visualisation=1 "
        "-C vis_hdlcd.disable_visualisation=1 -C mps4_board.telnetterminal0.start_telnet=0 "
        """-C "mps4_board.uart0.out_file='-'" -C mps4_board.uart0.unbuffered_output=1 """
        "-C mps4_board.uart0.shutdown_on_eot=1 -C mps4_board.subsystem.cpu0.semihosting-enable=1 "
        "-C mps4_board.subsystem.cpu0.semihosting-stack_base=0 -C mps4_board.subsystem.cpu0.semihosting-heap_limit=0 "
        f"-C mps4_board.subsystem.cpu0.semihosting-cwd={tmp_path} "
        """-C "mps4_board.subsystem.ethosu.extra_args='--fast'" """
        """-C "mps4_board.subsystem.cpu0.semihosting-cmd_line='executor_runner -m a'" -a elf --timelimit 600""",
    )
    assert (parsed.npu, parsed.boot, parsed.seconds) == ("ethos-u85-128", 0x11000000, 600.0)
    assert parsed.uart == UartSettings("-", shutdown_on_eot=True)
    assert parsed.semihosting is not None
    assert parsed.semihosting.command_line == "executor_runner -m a"


@pytest.mark.parametrize(
    ("model", "text"),
    [
        # FreeRTOS, TVM, ml-embedded-evaluation-kit, tflite-micro, Zephyr and CMSIS, as their scripts have it.
        (CORSTONE_300_U55, r'-C cpu0.CFGDTCMSZ=15 -C cpu0.CFGITCMSZ=15 -C mps3_board.uart0.out_file=\"-\" '
         r'-C mps3_board.uart0.shutdown_tag=\"EXITTHESIM\" -C mps3_board.telnetterminal5.start_telnet=0 '
         '-C ethosu.extra_args="--fast" -C ethosu.num_macs=256 ./build/demo --stat'),
        (CORSTONE_300_U65, '-C mps3_board.FPGA_SRAM_SIZE=2 -C ethosu.num_macs=512 -a demo.axf -q'),
        (CORSTONE_300_U55, "--stat -C cpu0.INITSVTOR=0x10000000 -C mps3_board.DISABLE_GATING=1 -a cpu0*=demo.axf -T 5 "
         "-C cpu0.semihosting-heap_base=0x0"),
        (CORSTONE_300_U55, "-a cpu0=demo.axf --simlimit 60 -C core_clk.mul=200000000 "
         "-C mps3_board.smsc_91c111.enabled=1 -C mps3_board.hostbridge.userNetworking=1 "
         "-C mps3_board.telnetterminal0.mode=raw -C mps3_board.telnetterminal0.quiet=0"),
        (CORSTONE_310_U55, "-C mps3_board.sse300.iotss3_systemcontrol.INITSVTOR_RST=0 -C cpu0.MPU_S=16 "
         "-C cpu0.CFGPACBTI=1 -C mps3_board.uart2.out_file=- -a demo.axf"),
        (CORSTONE_320, "-C mps4_board.subsystem.iotss3_systemcontrol.INITSVTOR_RST=0 "
         "-C mps4_board.subsystem.cpu0.INITSVTOR=0 -C mps4_board.subsystem.cpu0.MPU_S=16 "
         "-C mps4_board.uart1.out_file=- -C mps4_board.uart1.unbuffered_output=1 --application=demo.axf"),
    ],
)  # fmt: skip
def test_lines_of_public_scripts(model: FvpModel, text: str) -> None:
    assert settings(model, text).application.name in ("demo", "demo.axf")


def test_memory_to_dump_is_named_by_file_address_and_size() -> None:
    parsed = settings(CORSTONE_300_U55, "--dump cpu0=out@1.bin@0x70000000,0x20 --dump a,b.bin@4096,16 x")
    assert parsed.dumps == (
        DumpFile(Path("out@1.bin"), 0x70000000, 0x20),
        DumpFile(Path("a,b.bin"), 4096, 16),
    )


@pytest.mark.parametrize(
    "text",
    ["x.bin", "x.bin@1", "x.bin@1,", "@1,2", "x@1,0", "x@-1,4", "x@1,-4", "x@S:1,4", "x@1,g", "x@0x100000000,4"],
)
def test_a_dump_that_names_none_of_these_is_refused(text: str) -> None:
    assert "--dump takes [INST=]FILE@ADDRESS,SIZE" in refused(f"--dump {text} x.elf")


def test_only_paired_quotes_are_removed() -> None:
    line = settings(
        CORSTONE_300_U55, r"""-C 'mps3_board.uart0.out_file="-"' -C mps3_board.uart0.shutdown_tag=it\'s x"""
    )
    assert line.uart == UartSettings("-", shutdown_tag="it's")


def test_the_last_setting_counts_and_files_come_in_order(tmp_path: Path) -> None:
    config = tmp_path / "fvp.txt"
    config.write_text(
        "# Parameters:\n\nethosu.num_macs=64   # (int) how many\nmps3_board.uart0.shutdown_tag='a # b'\n", "utf-8"
    )
    assert settings(CORSTONE_300_U55, f"-C ethosu.num_macs=32 -f {config} x").npu == "ethos-u55-64"
    line = settings(CORSTONE_300_U55, f"--config-file={config} --parameter ethosu.num_macs=0x20 x")
    assert (line.npu, line.uart.shutdown_tag) == ("ethos-u55-32", "a # b")


def test_the_output_of_list_params_is_a_configuration_file(tmp_path: Path) -> None:
    for model in MODELS.values():
        config = tmp_path / "parameters.txt"
        config.write_text(listing(model))
        assert settings(model, f"-f {config} x") == settings(model, "x")


def test_a_setting_after_a_list_of_parameters_counts(tmp_path: Path) -> None:
    """Of two parameters for one address, the list sets both."""
    config = tmp_path / "parameters.txt"
    config.write_text(listing(CORSTONE_320))
    setting = "-C mps4_board.subsystem.iotss3_systemcontrol.INITSVTOR_RST=0x10000000"
    assert settings(CORSTONE_320, f"-f {config} {setting} x").boot == 0x10000000


def test_data_has_an_instance_and_a_number() -> None:
    line = settings(CORSTONE_300_U55, "x --data a=b@0x100 -d /some=where/c@256 --data=d@e@16")
    assert line.data == (DataFile(Path("b"), 0x100), DataFile(Path("/some=where/c"), 256), DataFile(Path("d@e"), 16))


def test_the_shortest_limit_counts() -> None:
    line = settings(CORSTONE_300_U55, "x --timelimit 10 --simlimit=2.5 --timelimit 7")
    assert (line.seconds, line.simulated) == (2.5, True)


@pytest.mark.parametrize(
    ("option", "action"), [("-h", Action.HELP), ("--version", Action.VERSION), ("-l", Action.LIST)]
)
def test_questions_need_no_application(option: str, action: Action) -> None:
    assert parse(CORSTONE_320, ["-C", "nonsense", option]) is action


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x -C mps3_board.uart0.outfile=-", "'mps3_board.uart0.outfile'; did you mean mps3_board.uart0.out_file?"),
        ("x -C etosu.num_mac=128", "did you mean ethosu.num_macs?"),
        ("x -C mps3_board.telnetterminal5.start_telent=0", "did you mean mps3_board.telnetterminal5.start_telnet?"),
        ("x -C mps4_board.subsystem.ethosu.num_macs=128", "FVP_Corstone_SSE-300_Ethos-U55 has no parameter"),
        ("x -C vis_hdlcd.disable_visualisation=1", "has no parameter 'vis_hdlcd.disable_visualisation'"),
        ("x -C ethosu.num_macs=512", "ethosu.num_macs is 512; FVP_Corstone_SSE-300_Ethos-U55 has 32, 64, 128, 256"),
        ("x -C ethosu.num_macs=many", "ethosu.num_macs takes a number, not 'many'"),
        ("x -C cpu0.semihosting-enable=yes", "cpu0.semihosting-enable takes 0 or 1, not 'yes'"),
        ("x -C ethosu.num_macs", "a parameter is set by name=value, not 'ethosu.num_macs'"),
        ("x -C 'ethosu.extra_args=--fast --pmu-trace t.json'", "ethosu.extra_args has '--pmu-trace'"),
        ("x -C mps3_board.uart0.in_file=a", "mps3_board.uart0.in_file cannot be set to 'a' on the virtual board"),
        ("x -C cpu0.INITSVTOR=0x10000004", "a vector table is at a multiple of 128"),
        ("", "one application is needed (-a FILE); none is given"),
        ("-a x y", "one application is needed (-a FILE); 2 are: y, x"),
        ("x --data y", "--data takes [INST=]FILE@ADDRESS, not 'y'"),
        ("x --data y@here", "--data takes [INST=]FILE@ADDRESS, not 'y@here'"),
        ("x --data y@secure:0x0", "--data takes [INST=]FILE@ADDRESS"),
        ("x --timelimit never", "--timelimit takes a number of seconds, not 'never'"),
        ("x --timelimit -1", "--timelimit takes a number of seconds, not '-1'"),
        ("x --cyclelimit 100", "--cyclelimit is not available on the virtual board"),
        ("x --iris-server", "--iris-server is not available on the virtual board"),
        ("x -S", "--cadi-server is not available on the virtual board"),
        ("x --timlimit 3", "did you mean --timelimit?"),
        ("x -Z", "--help lists the options"),
        ("x -f /nowhere/at/all", "the configuration file /nowhere/at/all cannot be read"),
        ("x -C cpu0.semihosting-enable=1 -C cpu0.semihosting-cwd=/nowhere", "cwd '/nowhere' is not a folder"),
        ("x -C cpu0.semihosting-enable=1 -C cpu0.semihosting-heap_base=0x100000000", "more than 32 bits"),
    ],
)  # fmt: skip
def test_errors_are_named(text: str, message: str) -> None:
    assert message in refused(text)


def test_an_error_in_a_configuration_file_names_the_line(tmp_path: Path) -> None:
    config = tmp_path / "fvp.txt"
    config.write_text("\nnonsense\n")
    assert refused(f"x -f {config}") == f"{config}, line 2: a parameter is set by name=value, not 'nonsense'"


@pytest.mark.parametrize(("length", "right"), [(255, True), (256, False)])
def test_a_command_line_that_an_fvp_cuts_off_is_refused(length: int, right: bool) -> None:
    text = "a" * length
    line = f"x -C cpu0.semihosting-enable=1 -C cpu0.semihosting-cmd_line='{text}'"
    if right:
        assert settings(CORSTONE_300_U55, line).semihosting == Semihosting(
            text, Path(), HeapInfo(0, 0x20700000, 0x20800000, 0x20700000)
        )
    else:
        assert "has 256 characters; an FVP cuts it off after 255" in refused(line)


def test_two_boot_addresses_must_agree() -> None:
    text = "x -C mps4_board.subsystem.cpu0.INITSVTOR=0 -C mps4_board.subsystem.iotss3_systemcontrol.INITSVTOR_RST=128"
    assert refused(text, CORSTONE_320) == "INITSVTOR and INITSVTOR_RST are not the same address"


def test_rows_are_unambiguous_and_have_reasons() -> None:
    for model in MODELS.values():
        names = [row.name(model) for row in PARAMETERS if row.on(model)]
        assert len(set(names)) == len(names)
    for row in PARAMETERS:
        assert row.note
        if row.default:
            assert replace(row, treatment=Treatment.IGNORED).value(row.default) is not None
