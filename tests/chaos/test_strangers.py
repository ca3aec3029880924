"""What strangers, namesakes and costly inputs are, and what is found if they get their way."""

import json
from dataclasses import replace
from datetime import timedelta

from services.kafka.planning.rights import ResourceNames, rights_of
from tests.chaos import namesakes, script, strangers
from tests.chaos.audit import latency
from tests.chaos.audit.arrival import BYTES_MAX
from tests.chaos.audit.canonical import owner
from tests.chaos.by_hand.history_builder import START, HistoryBuilder
from tests.chaos.costly import ANSWERS, costly
from tests.chaos.workload import workload

PARTITIONS = 12
NAMES = ResourceNames("acme", "acme.worker", "billing", strangers.OWN_TOOLSET)


def test_strangers_write_what_an_application_and_a_tool_server_may() -> None:
    rights = [*rights_of("app", NAMES), *rights_of("tools", NAMES)]
    may = {it.name for it in rights if (it.operation, it.resource) == ("Write", "topic")}

    assert {f"acme.{topic}.v1" for topic in strangers.WRITTEN} <= may
    assert "acme.approvals.v1" not in may
    assert f"acme.toolsets.{script.TOOLSET}.v1" not in may


def test_costly_requests_are_within_the_limits_and_of_every_kind() -> None:
    made = costly(1, 240, PARTITIONS, 30.0)

    assert all(len(one.value or b"") < BYTES_MAX for one in made.publications)
    assert {id_.split(".")[1] for id_ in made.request_ids} == set(ANSWERS)
    assert made.dead_letters == 3
    assert not any(map(script.is_good, made.request_ids))
    assert all(len(answer) < 256 * 1024 for answer in ANSWERS.values())


def test_namesakes_are_of_one_partition_and_of_two() -> None:
    made = namesakes.namesakes(1, PARTITIONS, 30.0)
    bodies = [json.loads(one.value or b"") for one in made.publications]
    places: dict[str, set[int]] = {}
    for body in bodies:
        places.setdefault(body["request_id"], set()).add(owner(body["workflow_id"], PARTITIONS))

    assert len(made.request_ids) == 2 * namesakes.PAIRS
    assert len(bodies) == 2 * namesakes.PAIRS + namesakes.COPIED
    assert sorted(map(len, places.values())) == [1] * 6 + [2] * 6


def test_what_comes_in_the_calm_is_answered_at_once() -> None:
    made = workload(1, 600, 60, PARTITIONS, 30.0, calm_from_s=20.0)
    late = {
        json.loads(one.value or b"")["request_id"]
        for one in made.publications
        if one.at_s >= 20.0 and one.key != b"garbage"
    }
    copies = {id_ for id_ in late if not script.is_good(id_)}

    assert len(late) > 100
    assert len(copies) < 40, "copies of what came before"


def test_good_requests_are_timed_from_publish_to_terminal_if_none_stood_before_them() -> None:
    builder = HistoryBuilder()
    for id_ in ("1-1.t.aa", "1-2.t.aa", "1-3.t.ia"):
        builder.ask(id_)
        builder.work(id_)
    history = builder.history()
    since, until = START - timedelta(hours=1), START + timedelta(hours=1)

    times = latency.took(history, since, until, script.is_good)

    assert len(times) == 2
    assert latency.took(history, since, since, script.is_good) == []
    assert latency.percentile([timedelta(seconds=n) for n in range(100)], 0.95).seconds == 95


def test_a_request_that_stood_behind_another_of_its_workflow_is_not_timed() -> None:
    builder = HistoryBuilder()
    for id_ in ("1-1.t.aa", "1-2.t.aa"):
        builder.ask(id_)
    for id_ in ("1-1.t.aa", "1-2.t.aa"):
        builder.work(id_)

    times = latency.took(
        builder.history(), START - timedelta(hours=1), START + timedelta(hours=1), script.is_good
    )

    assert len(times) == 1


def test_a_result_under_the_workflow_of_another_is_found() -> None:
    builder = HistoryBuilder()
    for workflow_id in ("namesake1-0-0", "namesake1-0-1"):
        builder.ask("1-n000.t.aa", workflow_id)
    builder.work("1-n000.t.aa")

    (found,) = namesakes.check(builder.history())

    assert (found.promise, "0 results" in found.text) == ("G2", True)
    assert replace(namesakes.without(builder.history())).arrivals == []
