"""Records from JSON: the checks that the types of their fields do not make."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

from cattrs.gen import make_dict_structure_fn

from ethos_hil.base.clock import StatedClock
from ethos_hil.base.question import Question
from ethos_hil.base.record import Metric, Record
from ethos_hil.base.typed_json import from_json, new_converter
from ethos_hil.base.verdict import Failure, FailureKind

_ALWAYS = ("failure", "outputs", "metrics", "ops", "artifact", "versions")
"""What every record has in JSON, though the fields have defaults."""
_JSON = new_converter()
_JSON.register_structure_hook(Question, lambda data, _: Question.from_json(data))
_read_failure = make_dict_structure_fn(Failure, _JSON)
_read_metric = make_dict_structure_fn(Metric, _JSON)
_read_clock = make_dict_structure_fn(StatedClock, _JSON)


@_JSON.register_structure_hook
def _failure(data: Mapping[str, Any], _: type[Failure]) -> Failure:
    """Put a kind that this version does not know before the message, so that nothing is lost."""
    kind = data["kind"]
    if isinstance(kind, str) and kind not in set(FailureKind):
        data = {**data, "kind": FailureKind.OTHER, "message": f"{kind}: {data['message']}"}
    return _read_failure(data, Failure)


@_JSON.register_structure_hook
def _metric(data: Mapping[str, Any], _: type[Metric]) -> Metric:
    metric = _read_metric(data, Metric)
    for value in (metric.value, *metric.samples):
        if not abs(value) <= sys.float_info.max:  # nor NaN
            raise TypeError(f"{value!r} is not a number of a metric")
    return metric


@_JSON.register_structure_hook
def _clock(data: Mapping[str, Any], _: type[StatedClock]) -> StatedClock:
    clock = _read_clock(data, StatedClock)
    if not 0 < clock.hz < math.inf:
        raise TypeError(f"{clock.hz!r} is not a clock")
    return clock


def read_record(data: Mapping[str, Any]) -> Record:
    """Return the record of a document of a known schema. Raises ValueError where it has another form."""
    return from_json(Record, data, _ALWAYS, _JSON)
