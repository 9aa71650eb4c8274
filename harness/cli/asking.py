"""The options of commands: those of a question, which are made from its fields, and those that most commands share."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from ethos_hil.base.asking import Asking
from ethos_hil.base.errors import UsageError
from ethos_hil.base.field_option import FieldOption
from ethos_hil.base.options import OPTIONS
from ethos_hil.base.question import Question
from ethos_hil.harness.ask.place import npu_of

Word = TypeVar("Word", bound=StrEnum)
DEBUG = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
AS_JSON = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
_CAMPAIGN: dict[str, Any] = {"rich_help_panel": "How"}
POLICY = Annotated[
    Path | None, typer.Option("--policy", metavar="FILE", help="What is allowed, as TOML (docs/compare.md).")
]
RUNS = Annotated[Path, typer.Option("--runs", metavar="DIR", help="Where run folders are kept.")]

SHARD = Annotated[
    str | None,
    typer.Option(metavar="I/N", help="Ask one part of N, such as 2/4: for one of several machines.", **_CAMPAIGN),
]
MERGE = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="DIR",
        help="Ask nothing; put all shards below this folder together. May be repeated. The other options must be those "
        "of the shards.",
        **_CAMPAIGN,
    ),
]
RUN_NAME = Annotated[
    str | None, typer.Option(metavar="NAME", help="Name of the run folder. Default: a new one.", **_CAMPAIGN)
]
RESUME = Annotated[
    str | None,
    typer.Option(
        metavar="RUN",
        help="Resume this run, which ended early, and ask again what failed. The other options must be those of that "
        "run.",
        **_CAMPAIGN,
    ),
]


def file_option(flag: str, what: str, *, instead: str = "the table", **attributes: Any) -> Any:
    """Return the option of a file that a command writes, with `what` and where; - is stdout, in place of `instead`."""
    place = f", instead of {instead}" if instead else ""
    return typer.Option(flag, metavar="FILE", help=f"Write {what}; - for stdout{place}.", **attributes)


def word_of(option: str, text: str, words: type[Word]) -> Word:
    """Return a word of an option. Raises UsageError, which lists the words."""
    try:
        return words(text)
    except ValueError:
        raise UsageError(f"{option} is {text!r}", hint=f"it takes: {', '.join(words)}") from None


_FIRST = ("model", "npu", "target", "memory_mode")
"""What most users give comes first in --help."""
_QUESTION = "question"
"""The parameter of a command that gets the question."""


def asks(asking: Asking) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command, which takes a `question`, the options of one; its own parameters come after them.

    Args:
        asking: which fields, and what is different in this command. Where MODEL may be left out (its metavar has
            brackets), the question is None without it.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(function, eval_str=True).parameters.values())
        options = [_parameter(name, asking) for name in sorted(asking.fields, key=lambda name: name not in _FIRST)]

        @functools.wraps(function)
        def command(**values: Any) -> None:
            fields = {name: values.pop(name) for name in asking.fields}
            function(**{_QUESTION: _question(asking, fields)}, **values)

        parameters = [*options, *(param.replace(kind=param.KEYWORD_ONLY) for param in own if param.name != _QUESTION)]
        vars(command)["__signature__"] = inspect.Signature(parameters)
        command.__annotations__ = {param.name: param.annotation for param in parameters}
        return command

    return decorate


def option_of(name: str, **changes: Any) -> Any:
    """Return the option of a command that asks for a field; `changes` are other attributes of its `FieldOption`."""
    return _option(name, dataclasses.replace(OPTIONS[name], **changes))


def given_parameters(context: typer.Context) -> dict[str, str]:
    """Return the parameters that are given on the command line: how the user writes them, by name."""
    parameters = {param.name or "": param.opts[0] for param in context.command.params}
    return {
        name: flag
        for name, flag in parameters.items()
        if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
    }


def _parameter(name: str, asking: Asking) -> inspect.Parameter:
    how = asking.option(name)
    if name == "model":
        optional = (how.metavar or "").startswith("[")
        kind = Annotated[str | None if optional else str, typer.Argument(metavar=how.metavar, help=how.help)]  # type: ignore[valid-type]
        return inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=None if optional else inspect.Parameter.empty, annotation=kind
        )
    default = None if how.otherwise or how.many else asking.default(name)
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[_type(how), _option(name, how)]
    )


def _option(name: str, how: FieldOption) -> Any:
    return typer.Option(
        *(how.flags or (how.flag(name),)),
        help=how.help,
        metavar=how.metavar,
        show_default=how.otherwise or True,
        rich_help_panel=how.panel,
    )


def _type(how: FieldOption) -> Any:
    if how.many:
        return list[str] | None
    if how.kind is bool:
        return bool
    return (str if how.parse else how.kind) | None


def _question(asking: Asking, values: Mapping[str, Any]) -> Question | None:
    """Return the checked question of the values on a command's line; None without a model."""
    from ethos_hil.results.latency import asked_clock

    if values["model"] is None:
        return None
    fields = {**asking.defaults}
    for name, value in values.items():
        how = asking.option(name)
        if how.many:
            fields[name] = tuple(value or asking.default(name))
        elif value is not None:
            fields[name] = how.parse(value, how.flag(name)) if how.parse else value
    if "npu" in values:
        fields["npu"] = npu_of(values["npu"], fields.get("target", Question.target))
    question = Question(**fields)
    question.check(asking.option)
    asked_clock(question.clock)
    return question
