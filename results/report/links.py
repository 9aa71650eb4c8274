"""Links to commits and jobs of the CI, by templates of the reader's own servers."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

_SCHEME = "https://"


@dataclass(frozen=True)
class Links:
    """Templates of addresses.

    Attributes:
        commit: with {commit} in it, such as "https://github.com/me/repo/commit/{commit}"; "" for no links.
        job: with {job} in it, such as "https://github.com/me/repo/actions/runs/{job}"; "" for none. A job that is an
            address itself, as on GitLab, needs no template.
    """

    commit: str = ""
    job: str = ""

    def to_commit(self, commit: str) -> str:
        """Return the address of a commit, "" for none."""
        return _fill(self.commit, "{commit}", commit)

    def to_job(self, job: str) -> str:
        """Return the address of a job, "" for none."""
        return job if job.startswith(_SCHEME) else _fill(self.job, "{job}", job)


NO_LINKS = Links()


def check_template(template: str, name: str) -> str:
    """Return what is wrong with a template, "" for nothing.

    Args:
        template: the template.
        name: what must be in it: "commit" or "job".
    """
    if not template.startswith(_SCHEME):
        return f"{template!r} does not begin with {_SCHEME}"
    if f"{{{name}}}" not in template:
        return f"{template!r} has no {{{name}}} in it"
    return ""


def _fill(template: str, place: str, value: str) -> str:
    if not value or not template.startswith(_SCHEME):
        return ""
    return template.replace(place, quote(value, safe=""))
