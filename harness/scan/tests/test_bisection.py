"""A bisection finds the first candidate that is not as the oldest one; commits are built, each once, by a command."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import ethosu.vela
import pytest

from ethos_hil.base.dataclasses import replace
from ethos_hil.base.errors import ToolError
from ethos_hil.base.question import Question
from ethos_hil.harness.scan.bisection import BY, Bisected, bisect
from ethos_hil.harness.scan.candidates import Candidate, Over
from ethos_hil.harness.scan.commits import BuildFailed, CommitBuilder
from ethos_hil.harness.scan.compiled_version import CompiledVersion, ScanAnswer
from ethos_hil.harness.scan.report import findings
from ethos_hil.harness.scan.scan import ScanOrder, scan
from ethos_hil.harness.terminal.progress import Silent
from ethos_hil.lowering.cache import environments
from ethos_hil.lowering.cache.environments import KeptEnvironments
from ethos_hil.lowering.conditions.process import silent
from ethos_hil.lowering.tests.conftest import MODELS

LARGEST = 9


def find(cycles: Sequence[int | None], by: str | None = None) -> tuple[list[str], Bisected]:
    """Bisect candidates that take so many cycles; None for one that cannot be built."""

    def tried(candidate: Candidate) -> CompiledVersion:
        count = cycles[int(candidate.version)]
        return CompiledVersion(candidate.version, "" if count else "it fails", cycles=count, built=count is not None)

    versions, bisected = bisect([Candidate(str(number)) for number in range(len(cycles))], tried, by)
    return [version.version for version in versions], bisected


@pytest.mark.parametrize("count", range(2, LARGEST))
def test_the_first_of_a_list_that_changes_once_is_found_whatever_cannot_be_built(count: int) -> None:
    """The oracle is a search through the whole list."""
    for at in range(1, count):
        for lost in itertools.chain.from_iterable(itertools.combinations(range(1, count - 1), n) for n in range(count)):
            cycles = [None if number in lost else 1 + (number >= at) for number in range(count)]
            tried, found = find(cycles)
            first = next(number for number in range(count) if cycles[number] == 2)
            before = max(number for number in range(first) if cycles[number] == 1)
            untried = tuple(str(number) for number in range(before + 1, first))
            assert found == Bisected("cycles", str(first), str(before), untried, count)
            assert tried == sorted(tried, key=int)


def test_it_tries_the_logarithm_of_a_long_list() -> None:
    tried, found = find([1] * 700 + [2] * 324)
    assert (found.first, found.before) == ("700", "699")
    assert len(tried) == 2 + 10


def test_ends_that_are_alike_are_all_that_is_tried_and_an_end_that_cannot_be_built_ends_it() -> None:
    assert find([1, 2, 1]) == (["0", "2"], Bisected("", "", "", (), 3))
    assert find([1, 2, 3], "stream")[1].first == "", "that is alike, though the cycles are not"
    for cycles in ([None, 1], [1, None]):
        with pytest.raises(ToolError, match="cannot be tried: it fails"):
            find(cycles)


@pytest.mark.parametrize("by", BY)
def test_each_quantity_is_found_by_itself_and_a_program_before_all(by: str) -> None:
    """The list changes in that alone."""
    old = CompiledVersion("0", cycles=1, answer=ScanAnswer.EQUAL)
    old = replace(old, sqnr_db=30.0)
    changes = {BY[by]: {"answer": ScanAnswer.WRONG, "cycles": 2, "cpu": 3, "sqnr": 23.9}.get(by, "another")}
    new = replace(old, version="1", **changes)  # type: ignore[arg-type]
    for given in (None, by):
        _, found = bisect([Candidate("0"), Candidate("1")], lambda it: (old, new)[int(it.version)], given)
        assert (found.by, found.first) == (by, "1")


def test_a_level_that_moves_by_less_than_a_bit_is_not_called_a_change() -> None:
    levels = [30.0, 28.0, 31.0, 24.1, 23.9]
    versions = [CompiledVersion(str(number), cycles=1, sqnr_db=level) for number, level in enumerate(levels)]
    _, found = bisect([Candidate(str(number)) for number in range(5)], lambda it: versions[int(it.version)], "sqnr")
    assert (found.first, found.before) == ("4", "3")


# --- Commits. ---


class Repository:
    """A git repository in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str) -> str:
        command = ["git", "-C", str(self.folder), "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, subject: str, text: str) -> str:
        (self.folder / "setting").write_text(text)
        self.git("add", "setting")
        self.git("commit", "--quiet", "--allow-empty", "-m", subject)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


INFO = "$ETHOS_HIL_OUT/ethos_u_vela-9.dist-info"
PACKAGE = f"mkdir -p {INFO} && cp setting {INFO}/METADATA"


def builder(repository: Repository, tmp_path: Path, command: str) -> CommitBuilder:
    return CommitBuilder(repository.folder, command, KeptEnvironments(tmp_path / "kept"))


def test_a_commit_is_built_once_in_a_checkout_of_its_own(repository: Repository, tmp_path: Path) -> None:
    """The user's folder stays as it is, with what is not committed; nothing is left from one build to the next."""
    first, last = repository.commit("one", "1"), repository.commit("two\x1b[2J", "2")
    (repository.folder / "setting").write_text("not committed")
    (repository.folder / "more").write_text("")
    building = builder(repository, tmp_path, f"test ! -e left && touch left && {PACKAGE}; echo $ETHOS_HIL_COMMIT > sha")
    old, new = building.commits(f"{first}..main")
    assert (old.sha, new.sha) == (first, last)
    assert (new.name, new.subject) == (last[:10], "two\x1b[2J")
    stages: list[str] = []
    built = {commit: building.build(commit, stages.append) for commit in (old, new, old)}
    assert stages == [f"Building commit {commit.name}" for commit in (old, new)]
    texts = []
    for ((name, _, path),) in (tuple(part.partition("=") for part in built[commit]) for commit in (old, new)):
        assert name == "path"
        texts.append((Path(path) / "ethos_u_vela-9.dist-info/METADATA").read_text())
    assert texts == ["1", "2"]
    assert (repository.folder / "setting").read_text() == "not committed"
    assert sorted(path.name for path in repository.folder.iterdir()) == [".git", "more", "setting"]
    assert builder(repository, tmp_path, "exit 1")._digest != building._digest, "another command is another build"


FAILS = {
    "exit 7": r"ended with status 7 \(all of it is in",
    "echo no such header; exit 1": r"status 1: no such header \(all",
    "true": r"left nothing in \$ETHOS_HIL_OUT",
    f"{PACKAGE}; echo '{{\"dir_info\": {{\"editable\": true}}}}' > {INFO}/direct_url.json": "editable",
}  # fmt: skip


@pytest.mark.parametrize("command", FAILS)
def test_a_build_that_fails_says_why_and_is_not_kept(repository: Repository, tmp_path: Path, command: str) -> None:
    commit = repository.commit("one", "1")
    repository.commit("two", "2")
    building = builder(repository, tmp_path, command)
    for _ in range(2):
        with pytest.raises(BuildFailed, match=FAILS[command]):
            building.build(building.commits(f"{commit}..main")[0], silent)
    assert not list((tmp_path / "kept").glob("*commit-*"))


def test_a_build_may_leave_wheels_or_a_python(repository: Repository, tmp_path: Path) -> None:
    commit = repository.commit("one", "1")
    repository.commit("two", "2")
    for command, kind in (("touch $ETHOS_HIL_OUT/b.whl $ETHOS_HIL_OUT/a.whl", ["path=", "path="]),
                          ("mkdir $ETHOS_HIL_OUT/bin; touch $ETHOS_HIL_OUT/bin/python", ["python="])):  # fmt: skip
        building = builder(repository, tmp_path, command)
        built = building.build(building.commits(f"{commit}..main")[0], silent)
        assert [text.partition("=")[0] + "=" for text in built] == kind


@pytest.mark.slow
def test_the_commit_that_changed_what_vela_makes_is_named(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each commit is the installed Vela with other default arguments; one cannot be built."""
    settings = {
        "as it is": "",
        "words": "# a comment",
        "broken": "exit 3",
        "smaller": "--disable-cascading",
        "more words": "--disable-cascading",
    }
    commits = {subject: repository.commit(subject, text) for subject, text in settings.items()}
    site = Path(ethosu.vela.__file__).parents[2]
    build = tmp_path / "build.py"
    build.write_text(f"""
import os, pathlib, shutil, sys
out, setting = pathlib.Path(os.environ["ETHOS_HIL_OUT"]), pathlib.Path("setting").read_text()
if setting.startswith("exit"):
    sys.exit(3)
site = pathlib.Path({str(site)!r})
for name in ("ethosu", next(site.glob("ethos_u_vela-*.dist-info")).name):
    shutil.copytree(site / name, out / name)
more = setting.split() if setting.startswith("--") else []
with (out / "ethosu/vela/vela.py").open("a") as file:
    file.write(f"\\n_main = main\\ndef main(args=None):\\n    return _main([*args, *{{more!r}}])\\n")
with next(out.glob("*.dist-info/RECORD")).open("a") as file:
    file.write(f"setting,sha256={{os.environ['ETHOS_HIL_COMMIT']}},1\\n")
""")
    monkeypatch.setattr(environments, "cache_folder", lambda: tmp_path)
    over = Over.parse([f"commits={commits['as it is']}..main"], repository.folder, f"{sys.executable} {build}")
    report = scan(ScanOrder(Question(f"{MODELS}:known"), over), Silent())
    (point,) = report.points
    tried = [version.title for version in point.versions if version.built]
    assert tried == ["as it is", "words", "smaller", "more words"]
    assert point.bisected is not None
    assert point.bisected.first.startswith(commits["smaller"][:10])
    assert point.bisected.untried == (commits["broken"][:10],)
    sentence = f'commit {commits["smaller"][:10]} "smaller" is the first at which the modelled cycles changed'
    assert findings(point, report.package)[0].startswith(sentence)
    assert all(version.answer is ScanAnswer.EQUAL for version in point.versions if version.built)
