"""Records, the collector, JUnit properties and the JSON document, without pytest in between."""

from __future__ import annotations

import json
import math
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from front import read_report
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_semcov.gates.verdict import Criterion, Outcome, Verdict
from pytest_semcov.reporting import json_report, junit
from pytest_semcov.reporting.collector import Collector
from pytest_semcov.reporting.findings import gaps, skipped_images, untrained
from pytest_semcov.reporting.records import KEPT_PER_PHASE, RecordSink, count_outcomes, plain_copy

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=50)
@given(PLAIN)
def test_plain_values_are_copied_as_they_are(value):
    copy = plain_copy(value)
    assert copy == value
    if isinstance(value, (list, dict)):
        assert copy is not value


@given(st.text(st.characters(categories=["Cs", "Ll", "Zs"]), min_size=1))
def test_text_can_always_be_encoded(text):
    assert plain_copy({text: [text]}) is not None
    json.dumps(plain_copy(text)).encode("utf-8")
    plain_copy(text).encode("utf-8")


@pytest.mark.parametrize(
    "value",
    [np.float64(1), np.float32(1), np.int8(1), np.bool_(True), np.str_("a"), (1,), {1}, b"a", object(), 1j],
)
def test_anything_else_is_refused_with_its_place_and_type(value):
    with pytest.raises(
        TypeError, match=rf"^record\['a'\]\[1\]\['b'\] is a .*{type(value).__name__}; records hold"
    ):
        plain_copy({"a": [0, {"b": value}]})
    with pytest.raises(TypeError, match=r"^record\['a'\]: key 3 is a int"):
        plain_copy({"a": {3: "b"}})


def test_a_sink_hands_over_each_verdict_once_stamped_and_not_shared():
    sink = RecordSink("test_x.py::test_a", "gw1")
    record: dict[str, Any] = {"subject": "night", "criteria": [{"value": 1.0}], "nodeid": "forged"}
    sink.add(record)
    record["criteria"][0]["value"] = 2.0
    (out,) = sink.drain("call")
    assert out == {
        "subject": "night",
        "criteria": [{"value": 1.0}],
        "nodeid": "test_x.py::test_a",
        "worker": "gw1",
        "phase": "call",
        "schema": 1,
    }
    assert sink.drain("teardown") == []


def test_a_sink_is_bounded_and_says_what_is_gone():
    sink = RecordSink("test_x.py::test_a")
    for number in range(KEPT_PER_PHASE + 7):
        sink.add({"number": number})
    kept = sink.drain("call")
    assert [record["number"] for record in kept] == list(range(7, KEPT_PER_PHASE + 7))
    assert kept[0]["dropped"] == 7
    sink.add({"number": 0})
    assert "dropped" not in sink.drain("call")[0]


def record(subject="night", outcome="FAIL", kind="sufficiency", names=("drift",), **more) -> dict[str, Any]:
    criteria = tuple(Criterion(name, 0.25, 0.5, None, Outcome(outcome)) for name in names)
    return Verdict(kind, subject, Outcome(outcome), criteria, **more).to_dict()


def report(
    nodeid: str, when: str, outcome: str = "passed", records: list | None = (), **more
) -> SimpleNamespace:
    fields = {"nodeid": nodeid, "when": when, "outcome": outcome, "duration": 0.5, **more}
    if records is not None:
        fields["semcov"] = list(records)
    return SimpleNamespace(**fields)


PHASES: list[tuple[list[tuple[str, str, bool]], str]] = [
    ([("setup", "passed", False), ("call", "passed", False), ("teardown", "passed", False)], "passed"),
    ([("setup", "passed", False), ("call", "failed", False), ("teardown", "passed", False)], "failed"),
    ([("setup", "failed", False), ("teardown", "passed", False)], "error"),
    ([("setup", "passed", False), ("call", "passed", False), ("teardown", "failed", False)], "error"),
    ([("setup", "skipped", False), ("teardown", "passed", False)], "skipped"),
    ([("setup", "passed", False), ("call", "skipped", True), ("teardown", "passed", False)], "xfailed"),
    ([("setup", "passed", False), ("call", "passed", True), ("teardown", "passed", False)], "xpassed"),
]


@pytest.mark.parametrize(("phases", "outcome"), PHASES)
def test_a_tests_outcome_is_the_worst_of_its_phases(phases, outcome):
    collector = Collector()
    for when, phase_outcome, expected in phases:
        more = {"wasxfail": ""} if expected else {}
        collector.add(report("t", when, phase_outcome, **more))
    (test,) = collector.tests
    assert test.outcome == outcome
    assert test.duration == 0.5 * len(phases)


def test_reports_of_other_tests_leave_nothing():
    collector = Collector()
    collector.add(report("t", "call", records=None))
    assert collector.tests == []
    assert collector.incomplete == []


def test_the_collector_orders_by_node_id_whatever_the_order_of_arrival():
    collector = Collector()
    for nodeid in ("b", "c", "a"):
        collector.add(report(nodeid, "setup", worker_id="gw0"))
    for nodeid in ("c", "a", "b"):
        collector.add(report(nodeid, "call", records=[record(nodeid)], worker_id="gw0"))
    assert [test.nodeid for test in collector.tests] == ["a", "b", "c"]
    assert [item["subject"] for item in collector.records] == ["a", "b", "c"]


def test_the_last_attempt_counts():
    collector = Collector()
    for subject, outcome in (("first", "rerun"), ("second", "failed"), ("third", "passed")):
        collector.add(report("t", "setup"))
        collector.add(report("t", "call", outcome, [record(subject)]))
    (test,) = collector.tests
    assert (test.attempts, test.outcome, [item["subject"] for item in test.records]) == (
        3,
        "passed",
        ["third"],
    )


def test_the_same_test_in_two_workers_is_two_tests():
    collector = Collector()
    for worker in ("gw0", "gw1"):
        collector.add(report("t", "setup", worker_id=worker))
    for worker in ("gw0", "gw1"):
        collector.add(report("t", "call", records=[record(worker)], worker_id=worker))
    assert [(test.worker, test.attempts, len(test.records)) for test in collector.tests] == [
        ("gw0", 1, 1),
        ("gw1", 1, 1),
    ]


def test_lost_workers_and_their_tests_are_noted():
    collector = Collector()
    collector.add(report("t", "???", "failed", None))
    collector.worker_lost("gw1", "long\nstory\nNot properly terminated")
    assert collector.incomplete == ["t: its worker crashed", "worker gw1: Not properly terminated"]


def test_properties_are_flat_scalars_and_the_latest_of_each_name_wins():
    properties: list[tuple[str, object]] = [("theirs", 1)]
    junit.add_properties(
        properties, [record("synthetic  night"), record("fog", "PASS", names=("drift", "copies"))]
    )
    junit.add_properties(properties, [record("fog", "FAIL")])
    assert properties == [
        ("theirs", 1),
        ("semcov.sufficiency.synthetic_night.outcome", "FAIL"),
        ("semcov.sufficiency.synthetic_night.drift", 0.25),
        ("semcov.sufficiency.fog.copies", 0.25),
        ("semcov.sufficiency.fog.outcome", "FAIL"),
        ("semcov.sufficiency.fog.drift", 0.25),
    ]
    many = junit.properties(record(names=[f"c{number}" for number in range(100)]))
    assert len(many) == 1 + junit.MOST_FIGURES
    shown_only = record()
    shown_only["criteria"][0]["bar"] = None
    assert junit.properties(shown_only) == [("semcov.sufficiency.night.outcome", "FAIL")]
    assert re.fullmatch(r"\S+", junit.properties(record("a b\tc\nd"))[0][0])


def test_gaps_name_categories_once_and_other_criteria_by_name():
    records = [
        record("day_night", kind="coverage", names=("count[night]", "share[night]", "groups[dusk]")),
        record("synthetic night", names=("drift", "copies")),
        record("synthetic night", names=("drift", "collapse")),
        record("fog", "INCONCLUSIVE", names=("uncertain",)),
        record("rain", "PASS"),
        record("semantics", kind="scan", names=("day_night[night]",)),
        record("bare", names=()),
    ]
    assert gaps(records) == [
        "day_night: night, dusk",
        "synthetic night: drift, copies, collapse",
        "semantics: day_night[night]",
        "bare",
        "fog (inconclusive): uncertain",
    ]
    assert count_outcomes(records) == {"FAIL": 5, "INCONCLUSIVE": 1, "PASS": 1}


def test_marks_are_found_wherever_a_verdict_carries_them():
    bad = {"sample_id": "day/a.jpg", "path": "/x/day/a.jpg", "rule": "truncated file", "remedy": "replace it"}
    records = [
        record(provenance={"embedder": {"name": "torchvision:resnet18", "trained": False}, "skipped": [bad]}),
        record(
            provenance={"models": [{"name": "builtin", "trained": True}, {"name": "mine", "trained": False}]}
        ),
        record(provenance={"skipped": [{**bad, "path": None, "sample_id": "b"}, {**bad, "sample_id": "17"}]}),
    ]
    assert untrained(records) == ["torchvision:resnet18", "mine"]
    assert list(skipped_images(records).items()) == [
        ("day/a.jpg", "truncated file"),
        ("b", "truncated file"),
        ("/x/day/a.jpg", "truncated file"),
    ]


def test_the_document_is_valid_json_whatever_the_numbers(tmp_path):
    collector = Collector()
    odd = record("odd")
    odd["criteria"][0] |= {
        "value": math.nan,
        "bar": math.inf,
        "interval": [-math.inf, 1.0],
        "note": "Nacht, 夜",
    }
    collector.add(report("t", "call", "failed", [odd]))
    document = json_report.document(collector, settings={"seed": 0}, exit_status=1)
    json_report.write(tmp_path / "new folder" / "report.json", document)
    read = read_report(tmp_path / "new folder")
    criterion = read["records"][0]["criteria"][0]
    assert (criterion["value"], criterion["bar"], criterion["interval"]) == (None, None, [None, 1.0])
    assert criterion["note"] == "Nacht, 夜"
    assert read["versions"].keys() >= {"python", "pytest", "pytest-semcov", "numpy", "torch"}
    assert [path.name for path in (tmp_path / "new folder").iterdir()] == ["report.json"]


def test_the_document_is_complete_only_if_nothing_was_lost():
    collector = Collector()
    assert json_report.document(collector, settings={}, exit_status=0)["complete"] is True
    collector.worker_lost("gw0", None)
    document = json_report.document(collector, settings={}, exit_status=0)
    assert (document["complete"], document["incomplete"]) == (False, ["worker gw0: lost"])
