"""The wheel, as a stranger has it: built, installed in an environment of its own, used in an empty folder.

The environment's other packages are links to those of the environment that runs the tests, without its ethos-hil.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest

from ethos_hil.harness.socs.registry import SOCS
from ethos_hil.harness.testing.small_model import MODEL
from ethos_hil.harness.verdict.tool_state import tool_state

ROOT = Path(__file__).resolve().parents[2]
LOCKS = sorted(ROOT.glob("requirements*.lock"))
BOARDS = [soc.firmware.name for soc in SOCS]
SUITE = """
from ethos_hil.suites.declare.case import Operator, case, f32

double = Operator("double", ("add.Tensor",), fp=("ADD",), int=("ADD",), cases=(case("it", lambda a: a + a, f32(1, 5)),))
"""
_ROOMS = ("src/ethos_hil/base", "harness", "lowering", "results", "suites")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.environment(
        contents=[
            *(f"{room}/**/*.py" for room in _ROOMS),
            *("src/ethos_hil/*.py*", "firmware/**/*.cc", "firmware/**/*.h"),
            *("setup.py", "README.md", "LICENSE", "suites/lab/bill_of_materials.py"),
        ],
        names=[f"{room}/**/*" for room in _ROOMS],
    ),
]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make wheel` makes, of a copy of this checkout, without network."""
    root = tmp_path_factory.mktemp("checkout")
    patterns = shutil.ignore_patterns("__pycache__", "*.egg-info", "CMakeFiles", "host")

    def unwanted(folder: str, names: list[str]) -> set[str]:
        records = {"runs", "history"} if Path(folder) == ROOT / "results" else set()  # of the developer's own runs
        # Other tests may be building the other boards' at this moment.
        others = set(names) - set(BOARDS) if Path(folder) == ROOT / "build" / "firmware" else set()
        return patterns(folder, names) | records | others

    for folder in ("harness", "lowering", "results", "suites", "firmware", "src", "build/firmware"):
        shutil.copytree(ROOT / folder, root / folder, symlinks=True, ignore=unwanted)
    for name in ("Makefile", "pyproject.toml", "README.md", "LICENSE", "setup.py", *(path.name for path in LOCKS)):
        shutil.copy2(ROOT / name, root)
    (root / ".venv").symlink_to(sys.prefix)
    # What `make setup` sees to is there: it is what runs this test, and the firmware was copied.
    files = [f"build/firmware/{board}/ethos-hil.{kind}" for board in BOARDS for kind in ("elf", "json")]
    done = ["build/.apt", ".venv/.installed", "boards", *files]
    command = ["make", *(word for name in done for word in ("-o", name)), "wheel"]
    subprocess.run(command, cwd=root, env={**os.environ, "PIP_NO_INDEX": "1"}, check=True, timeout=200)
    assert sorted(path.name for path in (root / "build").iterdir()) == ["firmware"], "nothing of the build is left"
    (path,) = (root / "dist").iterdir()
    return path


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has the wheel and what it depends on."""
    root = tmp_path_factory.mktemp("stranger") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(root)], check=True, timeout=100)
    packages = root / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if "ethos_hil" not in path.name and path.name != "__pycache__":
            (packages / path.name).symlink_to(path)
    command = [str(root / "bin/python"), "-m", "pip", "install", "-q", "--no-deps", "--no-index", str(wheel)]
    # With a checkout on PYTHONPATH pip would take ethos-hil for installed.
    subprocess.run(command, env={**os.environ, "PYTHONPATH": ""}, check=True, timeout=100)
    return root / "bin/python"


def run(python: Path, here: Path, *command: str | Path, status: int = 0) -> str:
    """What a command of that environment prints, in a folder, with nothing of ours in the process's environment."""
    environment = {
        "PATH": os.pathsep.join([str(python.parent), "/usr/bin", "/bin"]),
        "HOME": str(here),
        "ETHOS_HIL_CACHE": str(python.parents[2] / "cache"),
    }
    done = subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def test_it_holds_the_product_and_neither_tests_nor_laboratory(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    names = zipfile.ZipFile(wheel).namelist()
    wrong = [n for n in names if {"tests", "testing", "lab"} & set(n.split("/")) or n.endswith(("conftest.py", ".pyc"))]
    assert not wrong
    assert {name.split("/")[0] for name in names} == {"ethos_hil", f"{'-'.join(wheel.name.split('-')[:2])}.dist-info"}
    assert len(LOCKS) == 5
    locks = {f"ethos_hil/{path.name}" for path in LOCKS}
    assert {"ethos_hil/py.typed", "ethos_hil/suites/ops/test_elementwise.py", *locks} <= set(names)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["ethos_hil"]
    data = [path for pattern in patterns for path in ROOT.glob(pattern)]
    assert {path.suffix for path in data} >= {".c", ".json", ".html", ".css", ".js", ".toml"}
    for room in ("base", "harness", "lowering", "results", "suites"):
        product = {
            f"ethos_hil/{path.relative_to(ROOT / 'src/ethos_hil')}"
            for path in (ROOT / "src/ethos_hil" / room).rglob("*.py")
            if not {"tests", "testing", "lab"} & set(path.relative_to(ROOT / "src/ethos_hil").parts)
        }
        product |= {f"ethos_hil/{path.relative_to(ROOT)}" for path in data if path.is_relative_to(ROOT / room)}
        assert {name for name in names if name.startswith(f"ethos_hil/{room}/")} == product


def test_it_holds_the_firmware_of_every_board_and_says_what_it_was_built_from(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if name.startswith("ethos_hil/firmware/")}
        for board in BOARDS:
            manifest = json.loads(archive.read(f"ethos_hil/firmware/{board}/ethos-hil.json"))
            elf = archive.read(f"ethos_hil/firmware/{board}/{manifest['elf']}")
            assert (manifest["board"], manifest["size"]) == (board, len(elf))
            assert manifest["sha256"] == hashlib.sha256(elf).hexdigest()
            assert manifest["sources"]
            assert manifest["compiler"]
            assert manifest["flags"]
            held -= {f"ethos_hil/firmware/{board}/{name}" for name in ("ethos-hil.json", "ethos-hil.elf")}
    assert not held


def test_it_says_what_it_is_made_of(wheel: Path) -> None:
    """A list of parts in CycloneDX, where PEP 770 has it: all of the locks, and what its firmware is built of."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    folder = f"{'-'.join(wheel.name.split('-')[:2])}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if "sboms" in name)
        text = archive.read(name).decode()
        assert name == f"{folder}/sboms/ethos-hil.cdx.json"
        assert f"{name},sha256=" in archive.read(f"{folder}/RECORD").decode()
        elves = {board: archive.read(f"ethos_hil/firmware/{board}/ethos-hil.elf") for board in BOARDS}
    validator = JsonStrictValidator(SchemaVersion.V1_6)
    assert validator.validate_str(text) is None
    assert validator.validate_str(text.replace('"type": "firmware"', '"type": "cake"')) is not None, "it does look"
    parts = {part["bom-ref"]: part for part in json.loads(text)["components"]}
    pins = re.findall(r"^([^\s#]+)==(\S+)", "\n".join(path.read_text() for path in LOCKS), re.MULTILINE)
    assert len(pins) > 150
    for name, version in pins:
        assert f"{re.sub(r'[-_.]+', '-', name).lower()}=={version}" in parts
    for board, elf in elves.items():
        assert parts[f"firmware-{board}"]["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(elf).hexdigest()}]
    assert parts["torch==2.13.0"]["scope"] == "required"
    assert next(part["scope"] for ref, part in parts.items() if ref.startswith("pytest==")) == "optional"
    needs = {entry["ref"]: set(entry.get("dependsOn", ())) for entry in json.loads(text)["dependencies"]}
    for board in BOARDS:
        names = {ref.partition("==")[0] for ref in needs[f"firmware-{board}"]}
        assert names >= {"executorch-schema", "flatbuffers-headers"}
        assert any("newlib" in name or name.startswith("libc") for name in names)


def test_it_is_of_the_same_state_as_the_checkout_it_was_built_from(python: Path, tmp_path: Path) -> None:
    """A laptop's checkout and CI's wheel of one commit make shards of one night, and share a cache."""
    code = "import json; from ethos_hil.harness.verdict.tool_state import tool_state; print(json.dumps(tool_state()))"
    assert json.loads(run(python, tmp_path, python, "-c", code)) == tool_state()


def test_the_doctor_finds_it_well(python: Path, tmp_path: Path) -> None:
    report = json.loads(run(python, tmp_path, python.with_name("ethos-hil"), "doctor", "--json"))
    findings = {finding["name"]: finding for finding in report["findings"]}
    assert findings["ethos-hil"]["found"].endswith(
        f"installed in {python.parents[1]}/lib/python3.{sys.version_info[1]}/site-packages/ethos_hil"
    )
    assert findings["torch"]["status"] == findings["other packages"]["status"] == "ok"
    for soc in SOCS:
        line = findings[f"firmware of {soc.name}"]
        assert line["status"] == "ok"
        assert line["found"].startswith("of the wheel, SHA-256 ")
    assert list(tmp_path.iterdir()) == []


def test_a_firmware_that_was_damaged_is_seen(python: Path, tmp_path: Path) -> None:
    (path,) = python.parents[1].glob("lib/python*/site-packages/ethos_hil/firmware/corstone300/ethos-hil.elf")
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + b"?")
    try:
        report = run(python, tmp_path, python.with_name("ethos-hil"), "doctor", status=3)
    finally:
        path.write_bytes(whole)
    assert "is not what its manifest describes [install the wheel again]" in report


@pytest.mark.proof
def test_pytest_runs_a_users_own_suite(python: Path, tmp_path: Path) -> None:
    (tmp_path / "test_double.py").write_text(SUITE)
    printed = run(python, tmp_path, python, "-m", "pytest", "-v", "--suffix", "BI", "--suffix", "U55_BI")
    assert printed.count("VERIFIED") == 2
    assert "2 verified, 0 compiled-only" in printed
    assert run(python, tmp_path, python.with_name("ethos-hil"), "report", "results/runs") == "report.html\n"
    assert "2 verified." in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("npu", ["ethos-u85-256", pytest.param("ethos-u55-128", marks=pytest.mark.proof)])
def test_a_model_is_verified_in_an_empty_folder(python: Path, tmp_path: Path, npu: str) -> None:
    (tmp_path / "net.py").write_text(MODEL)
    run(python, tmp_path, python.with_name("ethos-hil"), "run", "net.py:net", "--npu", npu, "--json", "r.json")
    record = json.loads((tmp_path / "r.json").read_text())
    assert record["verdict"] == "verified"
    assert record["ops"][0]["source"].startswith("net.py:")
    assert [note.partition(":")[0] for note in record["notes"]] == ["calibrated on its one example"]
    names = sorted(path.name for path in tmp_path.iterdir() if path.name != "__pycache__")
    assert names == ["net.py", "r.json", "results"]
