"""The fuzzers run, find nothing, and find planted bugs; and the two decoders of frames agree on the fuzzers' inputs."""

from __future__ import annotations

import random
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from builds import FIRMWARE

from ethos_hil.base.errors import TargetError
from ethos_hil.harness.link.frames import Frame, FrameDecoder
from ethos_hil.harness.virtual.tests.programs import DATA
from ethos_hil.lowering.formats.pte_reader import Program
from ethos_hil.suites.lab.damage import libfuzzer
from ethos_hil.suites.lab.damage.libfuzzer import NAMES, Fuzzer, conversations

SECONDS = 1
CONTROL = bytes(8)  # the fuzzer of delegates takes these off before the blob


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a few seeds; `make fuzz` has many more."""
    folder = tmp_path_factory.mktemp("fuzz")
    for name in NAMES:
        (folder / "seeds" / name).mkdir(parents=True)
    for file in DATA.glob("*.pte"):
        pte = file.read_bytes()
        (folder / "seeds" / "program" / file.stem).write_bytes(pte)
        (delegate,) = Program.parse(pte).plan().delegates
        (folder / "seeds" / "delegate" / file.stem).write_bytes(CONTROL + delegate.data)
    for number, conversation in enumerate(conversations()):
        (folder / "seeds" / "frames" / str(number)).write_bytes(conversation)
    return folder


def fuzzer(name: str, binary: Path, work: Path) -> Fuzzer:
    return Fuzzer(name, binary, work / "seeds" / name, FIRMWARE / "fuzz" / "regressions" / name, work)


@pytest.mark.parametrize("name", NAMES)
def test_old_findings_stay_fixed(name: str, host_tools: Path, work: Path) -> None:
    target = fuzzer(name, host_tools / f"fuzz-{name}", work)
    assert target.replay(sorted(target.regressions.glob("*"))) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_short_session_finds_nothing(name: str, host_tools: Path, work: Path) -> None:
    session = fuzzer(name, host_tools / f"fuzz-{name}", work).run(SECONDS)
    assert session.finding is None, session
    # Reached even on a busy machine; it shows that inputs get past the first check.
    assert session.executions > 500
    assert session.coverage > {"program": 500, "delegate": 100, "frames": 150, "monitor": 100}[name]


def plant(binaries: Path, name: str, source: str, old: str, new: str, folder: Path) -> Path:
    """Return the fuzzer with `old` replaced in one of the firmware's sources, compiled and linked as the build does."""
    text = (FIRMWARE / source).read_text()
    assert text.count(old) == 1, f"{source} has changed: plant another bug"
    planted = folder / Path(source).name
    planted.write_text(text.replace(old, new))
    done = subprocess.run(
        ["ninja", "-t", "commands", f"fuzz-{name}"], cwd=binaries, capture_output=True, text=True, check=True
    )
    commands = done.stdout.splitlines()
    compile_it = next(shlex.split(command) for command in commands if command.endswith(f"/{source}"))
    linked = shlex.split(commands[-1].removeprefix(": && ").removesuffix(" && :"))
    compile_it[compile_it.index("-o") + 1] = f"{planted}.o"
    compile_it[-1] = str(planted)
    binary = folder / f"fuzz-{name}"
    linked[linked.index("-o") + 1] = str(binary)
    # Ahead of the library, which has the sound one.
    linked.insert(linked.index("libcommon.a"), f"{planted}.o")
    for command in (compile_it, linked):
        subprocess.run(command, cwd=binaries, check=True, capture_output=True, timeout=120)
    return binary


OVERFLOW, DAMAGED = "Sanitizer: heap-buffer-overflow", "PROPERTY VIOLATED: other bytes were received"
FORGED = "PROPERTY VIOLATED: a frame arrived that was not sent"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "source", "old", "new", "words"),
    [
        # a job beyond the blob, a write beyond the planned memory, undefined behaviour
        ("delegate", "npu/payload.cc", "if (size == 0 || !data.contains(at, size)) {", "if (size == 0) {", OVERFLOW),
        ("program", "runtime/storage.cc", "|| nbytes > buffers_[id].size - offset", "", "Sanitizer: use-after-poison"),
        ("program", "runtime/method.cc", "source->val() == nullptr && !is_null", "false && !is_null", "null pointer"),
        # damage taken for a frame, damage taken for a chunk, a chunk out of its order
        ("frames", "link/decoder.cc", "return crc32(content_, content_size_) == stated;", "return true;", FORGED),
        ("monitor", "monitor/receiver.cc", "is_whole && crc_ == stated_crc_;", "is_whole;", DAMAGED),
        ("monitor", "monitor/receiver.cc", " && header.offset == received_", "", "PROPERTY VIOLATED: "),
    ],
)
def test_a_planted_bug_is_found(
    name: str, source: str, old: str, new: str, words: str, host_tools: Path, work: Path, tmp_path: Path
) -> None:
    binary = plant(host_tools, name, source, old, new, tmp_path)
    shutil.copytree(work / "seeds", tmp_path / "seeds")
    session = fuzzer(name, binary, tmp_path).run(60)
    assert session.finding is not None
    assert words in session.finding
    assert session.artifact is not None
    assert words in (fuzzer(name, binary, tmp_path).replay([session.artifact]) or "")


@pytest.mark.slow
@pytest.mark.proof
def test_a_finding_is_made_smaller(
    host_tools: Path, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libfuzzer, "_SMALLER_SECONDS", 5)
    old, new = "is_whole && crc_ == stated_crc_;", "is_whole;"
    tool = fuzzer("monitor", plant(host_tools, "monitor", "monitor/receiver.cc", old, new, tmp_path), tmp_path)
    shutil.copytree(work / "seeds", tmp_path / "seeds")
    session = tool.run(60)
    assert session.artifact is not None
    small = tool.smaller(session.artifact)
    assert small != session.artifact
    assert small.stat().st_size <= session.artifact.stat().st_size
    assert "other bytes were received" in (tool.replay([small]) or "")


Event = tuple[str, int, int, bytes]
TEXT: Event = ("text", 0, 0, b"")
STOP: Event = ("stop", 0, 0, b"")


def in_python(line: bytes) -> Iterator[Event]:
    """Return what harness/link/frames.py finds, up to the point where it gives up."""
    decoder = FrameDecoder()
    try:
        for item in decoder.feed(line):
            yield ("frame", int(item.type), item.sequence, item.payload) if isinstance(item, Frame) else TEXT
        for _ in decoder.close():
            yield TEXT
    except TargetError:
        yield STOP


def in_cpp(lines: list[str]) -> Iterator[Event]:
    """Return the same from the output of ethos-hil-decode, which does not separate text from damage in the rest."""
    for line in lines:
        kind, *words = line.split(" ")
        if kind == "frame":
            yield kind, int(words[0]), int(words[1]), bytes.fromhex(words[2])
        elif kind == "other" and list(in_python(bytes.fromhex(words[0]))) == [TEXT]:
            yield TEXT
        else:
            yield STOP
            return


def test_both_decoders_find_the_same(host_tools: Path, work: Path, tmp_path: Path) -> None:
    fuzzer("frames", host_tools / "fuzz-frames", work).run(2)
    corpus = sorted((work / "corpus" / "frames").glob("*")) + sorted((work / "seeds" / "frames").glob("*"))
    rng = random.Random(5)
    for number, conversation in enumerate(list(conversations()) * 10):
        damaged = bytearray(conversation)
        for _ in range(number % 3):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        corpus.append(tmp_path / str(number))
        corpus[-1].write_bytes(damaged)
    output = subprocess.run(
        [host_tools / "ethos-hil-decode", *corpus], capture_output=True, text=True, check=True, timeout=120
    ).stdout
    sections = [part.splitlines()[1:] for part in ("\n" + output).split("\nfile ")[1:]]
    assert len(sections) == len(corpus) > 250
    kinds = set()
    for file, lines in zip(corpus, sections, strict=True):
        expected = list(in_python(file.read_bytes()))
        assert list(in_cpp(lines)) == expected, file
        kinds |= {kind for kind, *_ in expected}
    assert kinds == {"frame", "text", "stop"}
