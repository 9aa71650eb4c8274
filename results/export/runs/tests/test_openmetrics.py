"""OpenMetrics text, read by the parser of Prometheus' own client library."""

from __future__ import annotations

import pytest
from prometheus_client import Metric as Family
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from ethos_hil.base.plain_text import escape
from ethos_hil.results.export.runs import openmetrics
from ethos_hil.results.export.runs.tests import samples
from ethos_hil.results.gate.change import RunComparison
from ethos_hil.results.run_results import RunResults

RUNS = samples.runs()


def families(results: RunResults, comparison: RunComparison | None = None) -> dict[str, Family]:
    groups = list(text_string_to_metric_families(openmetrics.write(results, comparison)))
    assert len({family.name for family in groups}) == len(groups)
    return {family.name: family for family in groups}


def test_the_parser_refuses_what_is_not_openmetrics() -> None:
    text = openmetrics.write(samples.run(samples.record()), None)
    unit = "# UNIT ethos_hil_npu_cycles "
    changes = (("# EOF\n", ""), (f"{unit}cycles", f"{unit}s"), ('npu="', "npu="))
    for broken in (text.replace(old, new, 1) for old, new in changes):
        assert broken != text
        with pytest.raises(ValueError):
            list(text_string_to_metric_families(broken))


@pytest.mark.parametrize("what", RUNS)
def test_the_parser_reads_every_number_of_a_run(what: str) -> None:
    """Two units of one name, and names that are ours, are families of their own; of two answers the last counts."""
    results, comparison = RUNS[what]
    last = {(of.name, metric.name, metric.provenance, metric.unit): metric.value
            for of in results.records for metric in of.metrics}  # fmt: skip
    samples_of = [sample for family in families(results, comparison).values() for sample in family.samples]
    numbers = [sample.value for sample in samples_of if "provenance" in sample.labels]
    assert set(numbers) <= set(last.values())
    assert len(numbers) >= len({key[1:] for key in last})


def test_foreign_text_stays_a_label() -> None:
    by_name = families(samples.hostile(), samples.comparison(samples.HOSTILE))
    verified = by_name["ethos_hil_verified"].samples
    assert [sample.labels["npu"] for sample in verified] == [escape(samples.HOSTILE)] * 2
    assert not [name for name in by_name if not name.startswith("ethos_hil_")]
    numbers = {
        sample.value for family in by_name.values() for sample in family.samples if "provenance" in sample.labels
    }
    assert numbers == set(samples.NUMBERS)
