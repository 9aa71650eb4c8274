"""Where no NPU is named, a board's own is meant: it has one."""

from __future__ import annotations

from pathlib import Path

from ethos_hil.harness.ask.place import npu_of

NPUS = {
    "virtual": "ethos-u55-128",
    "corstone-320": "ethos-u55-128",  # can be one of several, so it is refused with their names
    "board:ek-ra8p1": "ethos-u55-256",
    "board:alif-e8-hp-u85": "ethos-u85-256",
    "board:mps3-an552": "ethos-u55-128",
    "board:no-such-board": "ethos-u55-128",
    "nothing": "ethos-u55-128",
}


def test_it_is_the_only_one_of_the_target(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('extends = "mps3-an547"\nnpus = ["ethos-u55-32"]\n')
    for target, npu in {**NPUS, f"board:{path}": "ethos-u55-32"}.items():
        assert npu_of(None, target) == npu
        assert npu_of("ethos-u65-256", target) == "ethos-u65-256"
