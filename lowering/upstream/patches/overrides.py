"""torch's overrides of composite operators, made once.

To keep composite operators whole, torch 2.13 gives each of the 550 there are a dozen Python kernels whenever a program
is decomposed, three times a lowering, and takes them away again (torch/export/exported_program.py,
`_override_composite_implicit_decomp`). Here torch does so the first time, and what it made of an operator is put in
place again whenever the operator is as it was before.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ethos_hil.lowering.upstream.patches.replaced import replaced

Kernels = dict[Any, Callable[..., Any]]


@dataclass(frozen=True)
class _Override:
    """What torch made of an operator: its Python kernels and its rule for fake tensors, before and after."""

    before: Kernels
    ruled_before: bool
    kernels: Kernels
    rule: Callable[..., Any]


_known: dict[Any, _Override] = {}
"""By operator and how it is to be decomposed (`_identity`)."""


@contextmanager
def remembered_overrides() -> Iterator[None]:
    """While inside, torch overrides an operator by what it made of it the last time, if nothing else has changed it."""
    from torch._subclasses.fake_impls import op_implementations_dict as rules
    from torch.export import exported_program

    by_torch = exported_program._override_composite_implicit_decomp

    @contextmanager
    def override(decompositions: Mapping[Any, Callable[..., Any]]) -> Iterator[None]:
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
                    rules.pop(operator, None)  # also one that was there before: so does torch

    with replaced(exported_program, by_torch.__name__, override):
        yield


def _identity(how: Callable[..., Any]) -> tuple[Any, ...]:
    """Equal for functions that do the same: every table of decompositions has its own copies of torch's local ones."""
    call = how if isinstance(how, functools.partial) else functools.partial(how)
    if getattr(call.func, "__closure__", ()) is not None or call.func.__defaults__ is not None:
        return (how,)
    return call.func.__code__, call.args, *sorted(call.keywords.items())


def _set_kernels(operator: Any, kernels: Kernels) -> None:
    operator.py_kernels.clear()
    operator.py_kernels.update(kernels)
    operator._dispatch_cache.clear()
