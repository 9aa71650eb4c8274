"""A stand-in for Arm's FVPs of the Corstone-300, -310 and -320: their command line, on the virtual boards.

parameters (the settings and their treatment), command_line (from arguments to settings), simulation (from settings to a
run and an exit status) and launcher, which writes the executables and is behind them. None of it is Arm's: the
processor is QEMU, the NPU the functional model, and no cycle is counted. docs/targets.md has the table of parameters.

Sources of facts about the FVPs' command line: upstream's own scripts and tests (executorch,
backends/arm/scripts/run_fvp.sh and backends/arm/test/runner_utils.py), Arm's scx_simconfig.h (the SystemC export API of
Fast Models, which lists the options), ml-embedded-evaluation-kit docs/sections/deployment.md, Zephyr's boards/arm/mps3
and mps4, and FVP logs kept in public repositories. No FVP was run.
"""
