"""The list of the wheel's parts describes the firmware that is there, and nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ethos_hil.base.errors import ToolError
from ethos_hil.harness.socs.registry import SOCS
from ethos_hil.suites.lab.bill_of_materials import FIRMWARE, archives, bill

pytestmark = pytest.mark.product

MAP = """Archive member included to satisfy reference by file (symbol)

/usr/lib/gcc/arm/12/../../../arm/lib/libm.a(lib_a-cosf.o)
                              main.cc.obj (cosf)
/usr/lib/gcc/arm/12/libgcc.a(_popcountsi2.o)
                              /usr/lib/gcc/arm/12/../../../arm/lib/libm.a(lib_a-cosf.o) (__popcountsi2)

LOAD main.cc.obj
LOAD /usr/lib/libunused.a
/usr/lib/libunused.a(nothing.o)
"""


@pytest.fixture
def firmware(tmp_path: Path) -> Path:
    """A copy of what the build made: ELF, manifest and map of each board."""
    for soc in SOCS:
        (tmp_path / soc.firmware.name).mkdir()
        for kind in ("elf", "json", "map"):
            name = f"{soc.firmware.name}/ethos-hil.{kind}"
            shutil.copyfile(FIRMWARE / name, tmp_path / name)
    return tmp_path


def test_only_archives_with_a_linked_member_are_parts() -> None:
    assert archives(MAP) == {Path("/usr/lib/arm/lib/libm.a"), Path("/usr/lib/gcc/arm/12/libgcc.a")}


@pytest.mark.proof
def test_a_firmware_that_is_not_its_manifests_has_no_list(firmware: Path) -> None:
    assert len(bill(firmware).components) > 150
    elf = firmware / SOCS[0].firmware.name / "ethos-hil.elf"
    elf.write_bytes(elf.read_bytes() + b"?")
    with pytest.raises(ToolError, match="is not what its manifest describes"):
        bill(firmware)


@pytest.mark.parametrize("kind", ["elf", "json", "map"])
def test_a_firmware_of_unknown_parts_has_no_list(firmware: Path, kind: str) -> None:
    (firmware / SOCS[0].firmware.name / f"ethos-hil.{kind}").unlink()
    with pytest.raises(ToolError, match=f"no known parts: .*ethos-hil.{kind}") as raised:
        bill(firmware)
    assert raised.value.hint == "run `make firmware`"
