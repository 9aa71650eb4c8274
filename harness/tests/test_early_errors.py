"""What needs no model is checked before one is loaded: lowering it may take a minute."""

from __future__ import annotations

from pathlib import Path

import pytest

from ethos_hil.base.errors import EthosHilError, TargetError, ToolError
from ethos_hil.base.question import Question
from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.run import run


@pytest.mark.parametrize("wrong", ["text", "another board's", "missing"])
def test_a_wrong_firmware_is_known_before_the_model_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    file = tmp_path / "firmware.elf"
    if wrong != "missing":
        file.write_bytes(b"text" if wrong == "text" else find_firmware("corstone-320"))
    monkeypatch.setenv("ETHOS_HIL_FIRMWARE", str(file))
    model = tmp_path / "net.py"
    model.write_text("open(__file__ + '.loaded', 'w')\n")
    with pytest.raises(EthosHilError, match="firmware") as error:
        run(Question(f"{model}:net", npu="ethos-u55-128"))
    assert isinstance(error.value, TargetError if wrong == "another board's" else ToolError)
    assert not Path(f"{model}.loaded").exists()
