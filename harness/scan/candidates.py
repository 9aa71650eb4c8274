"""What a scan is over: versions of Vela that compile one TOSA, or upstreams that lower the model, one after the other.

| `--over` | candidates |
|---|---|
| `ethos-u-vela=4.4..5.2` | releases of Vela; each compiles the TOSA that is lowered here |
| `executorch=1.4..1.5` | releases of a package that lowering uses; each is laid over this environment |
| `wheels=FOLDER` | wheels of one such package, by version: nightly builds |
| `commits=A..B` | commits of a repository, built by a command |
| `executorch==1.5.0 ethos-u-vela==5.2.0`, `python=PATH`, `path=PATH`, `here` | one upstream, as `--with` names it |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.environment import VELA
from ethos_hil.base.errors import UsageError
from ethos_hil.base.files import digest_of_file
from ethos_hil.harness.scan.commits import CommitBuilder
from ethos_hil.harness.scan.versions import WantedVersions
from ethos_hil.harness.subjects.subject import PATH, PYTHON, LoweringSubject, age_of, of_wheel
from ethos_hil.lowering.cache.environments import KeptEnvironments, releases

HERE = "here"
WHEELS, COMMITS = "wheels", "commits"
_ONE = (f"{PYTHON}=", f"{PATH}=")
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Candidate:
    """One of what is scanned over.

    Attributes:
        version: what the scan calls it.
        more: what tells it from another of this name: a digest of a wheel, a whole commit.
        title: the first line of a commit's message.
        subject: the values of `--with` that name it; None for a version of Vela that compiles the TOSA of here.
        build: makes them, where it has to be built first.
    """

    version: str
    more: str = ""
    title: str = ""
    subject: tuple[str, ...] | None = None
    build: Callable[[Tell], tuple[str, ...]] | None = None


@dataclass(frozen=True)
class Candidates:
    """A list to scan over, the oldest first.

    Attributes:
        package: of what they are versions: "ethos-u-vela", "executorch", "commit"; "" where they are upstreams.
        listed: the list.
        bisect: whether it is too long to try each.
    """

    package: str
    listed: tuple[Candidate, ...]
    bisect: bool = False


@dataclass(frozen=True)
class Over:
    """What `--over` asks for, before an index, a folder or a repository is looked at.

    Attributes:
        texts: its values.
        wanted: versions of a package; None for anything else.
        repository, command: of commits.
    """

    texts: tuple[str, ...]
    wanted: WantedVersions | None = None
    repository: Path = Path()
    command: str = ""

    @classmethod
    def parse(cls, texts: Sequence[str], repository: Path | None = None, command: str | None = None) -> Over:
        """Read the values of `--over`.

        Raises:
            UsageError: one cannot be used, or contradicts another one or the options.
        """
        is_commits = any(text.startswith(f"{COMMITS}=") for text in texts)
        if is_commits and not command:
            raise UsageError(f"--over {texts[0]} needs the command that builds a commit", hint="--build COMMAND")
        for option, value in (("--repository", repository), ("--build", command)):
            if value is not None and not is_commits:
                raise UsageError(f"{option} says nothing without --over {COMMITS}=A..B", hint="leave it out")
        wanted = None
        for text in texts:
            if _is_upstream(text):
                LoweringSubject.parse(_with(text))
                continue
            if len(texts) > 1:
                raise UsageError(
                    f"--over {text} is a list of its own, and is given with {len(texts) - 1} more",
                    hint="only single upstreams may be repeated, such as --over executorch==1.5.0 --over python=PATH",
                )
            if text.partition("=")[0] not in (WHEELS, COMMITS):
                wanted = WantedVersions.parse(text)
        if wanted is None and len(texts) == 1 and _is_upstream(texts[0]):
            raise UsageError(f"--over {texts[0]} is one upstream alone", hint="give another --over to see what changed")
        return cls(tuple(texts), wanted, repository or Path(), command or "")

    @property
    def is_frozen(self) -> bool:
        """Whether the model is lowered once, and only Vela is another one."""
        return self.wanted is not None and self.wanted.package == VELA

    def resolve(self, tell: Tell, *, known: bool = False) -> Candidates:
        """Return the candidates.

        Args:
            tell: is told what takes long.
            known: whether versions that are named in full exist, so that no index is needed.

        Raises:
            UsageError: there is no such version, wheel or commit.
            ToolError: an index cannot be reached, or git does not work.
        """
        kind, _, value = self.texts[0].partition("=")
        if self.wanted is not None:
            return self._released(self.wanted, tell, known)
        if kind == WHEELS:
            return _wheels(value)
        if kind == COMMITS:
            builder = CommitBuilder(self.repository, self.command)
            listed = tuple(
                Candidate(commit.name, commit.sha, commit.subject, (), partial(builder.build, commit))
                for commit in builder.commits(value)
            )
            return Candidates("commit", listed, bisect=True)
        named = ((text, _with(text)) for text in self.texts)
        return Candidates("", tuple(Candidate(_name(text, uses), text, subject=uses) for text, uses in named))

    def _released(self, wanted: WantedVersions, tell: Tell, known: bool) -> Candidates:
        environments, package, frozen = KeptEnvironments(), wanted.package, self.is_frozen
        versions = wanted.named
        if versions is None or not (
            known or all(environments.find(package, version, alone=not frozen) for version in versions)
        ):
            tell(f"Listing the releases of {package}")
            versions = wanted.resolve(releases(package))
        listed = (Candidate(it, it, subject=None if frozen else (f"{package}=={it}",)) for it in versions)
        return Candidates(package, tuple(listed))


def _is_upstream(text: str) -> bool:
    return "==" in text or text.startswith(_ONE) or text.strip() == HERE


def _with(text: str) -> tuple[str, ...]:
    """Return the values of `--with` of one upstream: its parts are apart by spaces, but a path may have some."""
    text = text.strip()
    return () if text == HERE else (text,) if text.startswith(_ONE) else tuple(text.split())


def _name(text: str, uses: tuple[str, ...]) -> str:
    subject = LoweringSubject.parse(uses)
    return "this environment" if subject is None else subject.name


def _wheels(text: str) -> Candidates:
    """Return the wheels of a folder, or those that a pattern names, by version, and of one version by time."""
    path = Path(text).expanduser()
    found = sorted(path.glob("*.whl") if path.is_dir() else path.parent.glob(path.name))
    if len(found) < 2:
        raise UsageError(
            f"--over {WHEELS}={text}: {'one wheel is' if found else 'no wheels are'} there",
            hint="give a folder of wheels, or a pattern in quotes: --over 'wheels=nightly/executorch-*.whl'",
        )
    known = [(wheel, *of_wheel(wheel)) for wheel in found]
    packages = sorted({package for _, package, _ in known})
    if len(packages) > 1:
        pattern = found[0].parent / f"{packages[0].replace('-', '_')}-*.whl"
        raise UsageError(
            f"--over {WHEELS}={text}: there are wheels of {' and of '.join(packages)}",
            hint=f"scan over one package at a time: --over '{WHEELS}={pattern}'",
        )
    known.sort(key=lambda it: age_of(it[0]))
    versions = [version for _, _, version in known]
    listed = []
    for wheel, _, version in known:
        digest = digest_of_file(wheel)[:8]
        name = version if versions.count(version) == 1 else f"{version} ({digest})"
        listed.append(Candidate(name, f"{version} {digest}", subject=(f"{PATH}={wheel}",)))
    return Candidates(packages[0], tuple(listed))
