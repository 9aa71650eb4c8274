"""torch's overrides of composite operators, made once.

To keep composite operators whole, torch 2.13 gives each of them, 550, a dozen Python kernels whenever a program is
decomposed, and takes them away again (torch/export/exported_program.py, `_override_composite_implicit_decomp`). That
happens three times a lowering. Here torch makes the kernels the first time. Later they are put in place again, if the
operator is as it was before.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

Kernels = dict[Any, Callable[..., Any]]
Decompositions = Mapping[Any, Callable[..., Any]]
"""How operators are to be decomposed."""


@dataclass(frozen=True)
class _Override:
    """What torch made of an operator.

    Attributes:
        before: the Python kernels it had.
        ruled_before: whether it had a rule for fake tensors.
        kernels: the Python kernels that torch gave it.
        rule: its rule for fake tensors then.
    """

    before: Kernels
    ruled_before: bool
    kernels: Kernels
    rule: Callable[..., Any]


_known: dict[Any, _Override] = {}
"""By the operator and how it is to be decomposed (`_identity`)."""


def remembered_overrides(
    by_torch: Callable[[Decompositions], AbstractContextManager[None]],
) -> Callable[[Decompositions], AbstractContextManager[None]]:
    """torch's context manager, which reuses what it made of an operator unless something else has changed that."""
    from torch._subclasses.fake_impls import op_implementations_dict as rules

    @contextmanager
    def override(decompositions: Decompositions) -> Iterator[None]:
        again: dict[Any, _Override] = {}
        asked = {operator: (operator, *_identity(how)) for operator, how in decompositions.items()}
        for operator, key in asked.items():
            known = _known.get(key)
            if known and known.before == operator.py_kernels and known.ruled_before == (operator in rules):
                again[operator] = known
        anew = {operator: how for operator, how in decompositions.items() if operator not in again}
        before = {operator: (dict(operator.py_kernels), operator in rules) for operator in anew}
        with by_torch(anew):
            for operator in anew:
                kernels = dict(operator.py_kernels)
                _known[asked[operator]] = _Override(*before[operator], kernels, rules[operator])
            for operator, known in again.items():
                _set_kernels(operator, known.kernels)
                rules[operator] = known.rule
            try:
                yield
            finally:
                for operator, known in again.items():
                    _set_kernels(operator, known.before)
                    rules.pop(operator, None)  # torch drops a rule that was there before, too

    return override


def _identity(how: Callable[..., Any]) -> tuple[Any, ...]:
    """Something that is equal for functions that do the same.

    torch makes its local functions anew for every table of decompositions, so the functions themselves differ.
    """
    call = how if isinstance(how, functools.partial) else functools.partial(how)
    if getattr(call.func, "__closure__", ()) is not None or call.func.__defaults__ is not None:
        return (how,)
    return call.func.__code__, call.args, *sorted(call.keywords.items())


def _set_kernels(operator: Any, kernels: Kernels) -> None:
    operator.py_kernels.clear()
    operator.py_kernels.update(kernels)
    operator._dispatch_cache.clear()
