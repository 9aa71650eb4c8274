"""OpenMetrics text, read by the parser of Prometheus' own client library."""

from __future__ import annotations

import dataclasses

import pytest
from prometheus_client import Metric as Family
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from ethos_hil.base.plain_text import escape
from ethos_hil.base.record import BenchInfo, Metric
from ethos_hil.results.export.runs import openmetrics
from ethos_hil.results.export.runs.tests import samples
from ethos_hil.results.gate.change import RunComparison
from ethos_hil.results.latency import with_latency
from ethos_hil.results.run_results import RunResults


def families(results: RunResults, comparison: RunComparison | None = None) -> dict[str, Family]:
    groups = list(text_string_to_metric_families(openmetrics.write(results, comparison)))
    assert len({family.name for family in groups}) == len(groups)
    return {family.name: family for family in groups}


def values(family: Family, label: str) -> dict[str, float]:
    return {sample.labels[label]: sample.value for sample in family.samples}


def test_the_parser_refuses_what_is_not_openmetrics() -> None:
    text = openmetrics.write(samples.run(samples.record()), None)
    unit = "# UNIT ethos_hil_npu_cycles "
    changes = (("# EOF\n", ""), (f"{unit}cycles", f"{unit}s"), ('npu="', "npu="))
    for broken in (text.replace(old, new, 1) for old, new in changes):
        assert broken != text
        with pytest.raises(ValueError):
            list(text_string_to_metric_families(broken))


def test_a_number_is_a_gauge_with_its_unit_and_what_was_asked() -> None:
    by_name = families(samples.run(samples.record()))
    cycles = by_name["ethos_hil_npu_cycles"]
    assert (cycles.type, cycles.unit) == ("gauge", "cycles")
    (sample,) = cycles.samples
    assert sample.value == (1 << 24) + 1
    assert sample.labels == {
        "label": "suites/ops/test_a.py::test_add_same_U55_BI", "npu": "ethos-u55-128", "memory_mode": "Shared_Sram",
        "target": "virtual", "soc": "corstone-300", "system_config": "Ethos_U55_High_End_Embedded",
        "method": "forward", "operator": "add", "case": "same", "profile": "U55_BI", "provenance": "modelled",
    }  # fmt: skip
    units = {name: family.unit for name, family in by_name.items() if family.unit}
    assert units == {
        "ethos_hil_run_created_seconds": "seconds", "ethos_hil_npu_cycles": "cycles",
        "ethos_hil_npu_cycles_estimate_cycles": "cycles", "ethos_hil_sram_used_bytes": "bytes",
        "ethos_hil_target_seconds": "seconds",
    }  # fmt: skip


def test_the_run_is_told() -> None:
    by_name = families(samples.run(*samples.endings().values()), samples.comparison())
    (info,) = by_name["ethos_hil_run"].samples
    assert info.name == "ethos_hil_run_info"
    assert info.labels == {"run": "20261125T100247Z-c394cb", "commit": "f0" * 20, "version_torch": "2.13.0",
                           "version_ethos_u_vela": "5.1.0"}  # fmt: skip
    assert by_name["ethos_hil_run_created_seconds"].samples[0].value == 1795600971
    assert values(by_name["ethos_hil_records"], "ending") == {
        "verified": 1, "compiled-only": 1, "unverified": 1, "skipped": 1, "failed": 2, "known defect": 1,
        "quarantined": 0, "missing": 0, "refused": 0,
    }  # fmt: skip
    verified = values(by_name["ethos_hil_verified"], "label")
    assert (sum(verified.values()), len(verified)) == (1, 7)
    changes = values(by_name["ethos_hil_changes"], "word")
    assert {word: count for word, count in changes.items() if count} == {
        "regressed": 2,
        "missing": 1,
        "unchanged": 4000,
    }
    assert by_name["ethos_hil_gate_passed"].samples[0].value == 0
    assert "ethos_hil_changes" not in families(samples.run(samples.record()))


def test_of_two_answers_to_one_question_the_last_counts() -> None:
    later = dataclasses.replace(samples.record(), metrics=(Metric("npu_cycles", 5, "cycles", "modelled"),))
    (sample,) = families(samples.run(samples.record(), later))["ethos_hil_npu_cycles"].samples
    assert sample.value == 5


def test_two_schemes_and_two_cases_have_labels_where_others_do_not_tell_them_apart() -> None:
    """A label that is added makes another series of Prometheus', so that none is added without need."""
    artifact = samples.record().artifact
    assert artifact is not None
    record = samples.record(test=None, model="net.py:net")
    other = dataclasses.replace(record, artifact=dataclasses.replace(artifact, scheme="a16w8"))
    by_name = families(samples.run(record, other))
    assert values(by_name["ethos_hil_verified"], "scheme") == {"a8w8": 1, "a16w8": 1}
    cases = [dataclasses.replace(record, bench=BenchInfo("grid", case, "nets")) for case in ("small", "wide")]
    assert values(families(samples.run(*cases))["ethos_hil_verified"], "bench_case") == {"small": 1, "wide": 1}
    apart = families(samples.run(record, dataclasses.replace(other, memory_mode="Sram_Only")))["ethos_hil_verified"]
    assert [sorted(sample.labels) for sample in apart.samples] == 2 * [
        ["label", "memory_mode", "method", "npu", "soc", "system_config", "target"]
    ]  # fmt: skip


def test_one_name_with_two_units_and_names_of_ours_are_two_families() -> None:
    metrics = (
        Metric("a_b", 1, "c", "fvp"), Metric("a", 2, "b_c", "fvp"), Metric("verified", 3, "", "fvp"),
        Metric("records", 4, "", "fvp"), Metric("run", 5, "", "fvp"), Metric("a", 6, "", "fvp"),
        Metric("a", 7, "", "vela"),
    )  # fmt: skip
    by_name = families(samples.run(samples.record(metrics=metrics)))
    numbers = [
        sample.value for family in by_name.values() for sample in family.samples if "provenance" in sample.labels
    ]
    assert sorted(numbers) == [1, 2, 3, 4, 5, 6, 7]
    assert values(by_name["ethos_hil_a"], "provenance") == {"fvp": 6, "vela": 7}


def test_foreign_text_stays_a_label() -> None:
    by_name = families(samples.hostile(), samples.comparison(samples.HOSTILE))
    verified = by_name["ethos_hil_verified"].samples
    assert [sample.labels["npu"] for sample in verified] == [escape(samples.HOSTILE)] * 2
    assert not [name for name in by_name if not name.startswith("ethos_hil_")]
    numbers = {
        sample.value for family in by_name.values() for sample in family.samples if "provenance" in sample.labels
    }
    assert numbers == set(samples.NUMBERS)


def test_times_and_rates_have_names_that_end_in_their_unit() -> None:
    by_name = families(samples.run(with_latency(samples.record(clock_hz=500e6))))
    seconds, rate = by_name["ethos_hil_npu_latency_seconds"], by_name["ethos_hil_inferences_per_second"]
    assert (seconds.unit, rate.unit) == ("seconds", "")
    cycles = (1 << 24) + 1
    assert values(seconds, "provenance") == {"modelled": cycles / 500e6}
    assert values(rate, "provenance") == {"modelled": pytest.approx(500e6 / cycles)}
