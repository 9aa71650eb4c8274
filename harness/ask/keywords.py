"""The keywords of functions that ask a question: their names, defaults and help are those of the question's fields."""

from __future__ import annotations

import functools
import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ethos_hil.base.asking import Asking
from ethos_hil.base.question import ANNOTATIONS, OPTIONS

_PLACE = "{options}"
"""Where the help of the keywords goes in a docstring."""
_WIDTH = 110
_KIND = inspect.Parameter.KEYWORD_ONLY
Function = TypeVar("Function", bound=Callable[..., Any])


def asks_by_keyword(asking: Asking) -> Callable[[Function], Function]:
    """Give a function the keywords of a question, which it takes as `**options`: in its signature and docstring."""

    def decorate(function: Function) -> Function:
        own = list(inspect.signature(function).parameters.values())
        taken = {parameter.name for parameter in own}
        names = [name for name in asking.fields if name not in taken]

        @functools.wraps(function)
        def ask(*arguments: Any, **options: Any) -> Any:
            unknown = options.keys() - taken - {*names}
            if unknown:
                raise TypeError(f"{function.__name__}() got an unexpected keyword argument {min(unknown)!r}")
            return function(*arguments, **options)

        parameters = [
            *(parameter for parameter in own if parameter.kind is not parameter.VAR_KEYWORD),
            *(
                inspect.Parameter(name, _KIND, default=_default(asking, name), annotation=annotation_of(name))
                for name in names
            ),
        ]
        parameters.sort(key=lambda parameter: parameter.kind)
        result = inspect.signature(function).return_annotation
        vars(ask)["__signature__"] = inspect.Signature(parameters, return_annotation=result)
        if function.__doc__:
            ask.__doc__ = function.__doc__.replace(_PLACE, "\n        ".join(_help(asking, names)).lstrip())
        return ask  # type: ignore[return-value]

    return decorate


def annotation_of(name: str) -> str:
    """Return the type of the keyword of a field, as it is written."""
    how, written = OPTIONS[name], ANNOTATIONS[name]
    if how.many:
        return "str | Sequence[str]"
    if how.content and how.in_python:
        return "Inputs | None"
    if how.kind is Path:
        return "str | os.PathLike[str] | None"
    return {"npu": "str | None", "arena_cache_size": "int | str | None"}.get(name, written)


def _default(asking: Asking, name: str) -> Any:
    return None if name == "npu" else asking.default(name)


def _help(asking: Asking, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        how = asking.option(name)
        default = f"By default {how.otherwise}." if how.otherwise else ""
        text = " ".join(filter(None, (f"{name}:", how.help, how.in_python, default)))
        yield from textwrap.wrap(text, _WIDTH, subsequent_indent="    ")
