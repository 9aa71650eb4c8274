"""The errors of runs, histories, baselines and policies that are not what they should be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ethos_hil.base.errors import UsageError
from ethos_hil.base.plain_text import one_line


@contextmanager
def bad_results() -> Iterator[None]:
    """Turn OSError and ValueError of the results into UsageError, with one line that names the file."""
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"{error.filename2 or error.filename or 'a file'} cannot be read: {error.strerror or error}",
            hint="`ethos-hil runs` lists what run folders have, `ethos-hil history` runs",
        ) from error
    except ValueError as error:
        raise UsageError(one_line(str(error)), hint="--help says what it takes") from error
