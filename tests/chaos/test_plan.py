"""What a run will do is drawn from its seed: the same again, and of every kind."""

import json
import random
from collections import Counter, defaultdict

import pytest

from tests.chaos import script
from tests.chaos.audit.arrival import Arrival, arrival_of
from tests.chaos.audit.canonical import owner
from tests.chaos.audit.history import History
from tests.chaos.audit.record import Record
from tests.chaos.by_hand.history_builder import START
from tests.chaos.chaos import Size, asked
from tests.chaos.clocks import SHIFTS
from tests.chaos.faults import HOSTILE, OF_TOOLS, ORDINARY, Kind, faults
from tests.chaos.garbage import Garbage, Placed, check, garbage
from tests.chaos.rights import TAKEN
from tests.chaos.workload import LATER_S, Publication, Workload, workload
from tests.fuzz.batches import Codec, batch_of

PARTITIONS = 12


def published(seed: int = 1) -> Workload:
    return workload(seed, requests=600, workflows=60, partitions=PARTITIONS, lasting_s=20)


def test_a_seed_gives_the_same_run_again() -> None:
    assert published(1) == published(1)
    assert published(1) != published(2)
    assert faults(1, 3, 6.0, 60.0) == faults(1, 3, 6.0, 60.0)


def test_each_kind_of_fault_comes_once_before_any_comes_twice() -> None:
    for seed in range(20):
        kinds = [fault.kind for fault in faults(seed, 3, 6.0, 60.0)]

        assert set(kinds[: len(ORDINARY)]) == set(ORDINARY)
        assert set(kinds) == set(ORDINARY)


def test_a_run_with_agents_has_faults_of_its_tool_servers_as_well() -> None:
    plan = faults(1, 3, 6.0, 75.0, tools=2)

    assert {fault.kind for fault in plan} == {*ORDINARY, *OF_TOOLS}
    assert {fault.slot for fault in plan if fault.kind in OF_TOOLS} <= {0, 1}


def test_with_agents_all_requests_are_runs_of_which_some_are_cancelled() -> None:
    made = workload(1, requests=600, workflows=60, partitions=12, lasting_s=20, with_agents=True)

    cancels = [publication for publication in made.publications if publication.topic == "controls"]
    bodies = [json.loads(cancel.value or b"") for cancel in cancels]
    assert made == workload(1, 600, 60, 12, 20, with_agents=True)
    assert len(made.request_ids) == 600
    assert {id_.split(".")[1] for id_ in made.request_ids} == {script.RUN}
    assert 5 < len(cancels) < 60
    assert all(body["request_id"] in made.request_ids for body in bodies)
    assert all(
        one.partition == owner(body["workflow_id"], 12)
        for one, body in zip(cancels, bodies, strict=True)
    )


def test_a_hostile_run_is_drawn_from_its_seed_as_well() -> None:
    plan = faults(1, 3, 6.0, 75.0, 3, hostile=True)

    assert plan == faults(1, 3, 6.0, 75.0, 3, hostile=True)
    assert plan != faults(2, 3, 6.0, 75.0, 3, hostile=True)
    assert {fault.kind for fault in plan} == {*ORDINARY, *HOSTILE}
    assert garbage(1, 20, PARTITIONS, 60.0) == garbage(1, 20, PARTITIONS, 60.0)
    assert garbage(1, 20, PARTITIONS, 60.0) != garbage(2, 20, PARTITIONS, 60.0)


def test_a_hostile_run_has_runs_of_an_agent_beside_the_rest_and_before_the_calm() -> None:
    size = Size(600, 60, 3, 75.0, 300.0, hostile=True, calm_s=50.0, tool_servers=2, runs=0.05)
    at_s = defaultdict(list)
    for one in asked(1, size).publications:
        if one.topic == "requests" and one.key != b"garbage":
            id_ = json.loads(one.value or b"")["request_id"]
            at_s[id_.split(".")[1] == script.RUN].append(one.at_s)

    assert len({id_ for id_ in asked(1, size).request_ids if f".{script.RUN}." in id_}) == 30
    assert len(asked(1, size).request_ids) == 630
    assert max(at_s[True]) < 75.0 + max(LATER_S) < max(at_s[False])


def test_all_rights_and_all_shifts_have_their_turn() -> None:
    plans = [faults(seed, 3, 6.0, 75.0, 3, hostile=True) for seed in range(20)]
    drawn = [(fault.kind, fault.number) for plan in plans for fault in plan]

    assert {n % len(TAKEN) for kind, n in drawn if kind is Kind.RIGHTS} == set(range(len(TAKEN)))
    assert {n % len(SHIFTS) for kind, n in drawn if kind is Kind.CLOCK} == set(range(len(SHIFTS)))


@pytest.mark.wide
def test_garbage_is_of_all_codecs_and_of_many_kinds() -> None:
    planned = garbage(1, 400, PARTITIONS, 60.0)

    assert {one.batch.draft.codec for one in planned} == set(Codec)
    assert len({one.batch.kind for one in planned}) > 50
    assert {one.partition for one in planned} == set(range(PARTITIONS))
    assert [one.at_s for one in planned] == sorted(one.at_s for one in planned)


@pytest.mark.parametrize(("dead_letters", "found"), [(0, 3), (1, 0), (2, 3)])
def test_each_record_of_garbage_is_reported_once(dead_letters: int, found: int) -> None:
    one = Garbage(0.0, 4, batch_of(1, [b"a", b"b", b"c"]))
    about = [dead_letter_about(4, 7, 8), dead_letter_about(4, 9, 9)] * dead_letters
    history = History("chaos", PARTITIONS, about, [])

    violations = list(check(history, [Placed(one, 7)]))

    assert len(violations) == found
    assert all(violation.promise == "G1" for violation in violations)


def dead_letter_about(partition: int, first: int, last: int) -> Record:
    expected = f"a batch that can be read; it stands at offsets {first} to {last}"
    problems = [{"code": "unreadable_batch", "expected": expected if last > first else "a record"}]
    place = f"chaos.requests.v1-{partition}-{first}"
    body = {
        "kind": "dead_letter",
        "dead_letter_id": f"{place}.dead-letter",
        "request": None,
        "origin": {"partition": partition, "offset": first},
        "cause": {"kind": "undecodable", "problems": problems},
    }
    return Record("dead-letters", partition, 0, START, b"", json.dumps(body).encode())


def test_about_three_calls_in_ten_go_wrong() -> None:
    chance = random.Random(1)

    dead_letters = Counter("".join(script.plot(chance) for _ in range(2_000)))

    wrong = 1 - dead_letters[script.ANSWER] / dead_letters.total()
    assert abs(wrong - script.FAULT_SHARE) < 0.02
    assert dead_letters.keys() == {script.ANSWER, *script.FAULTS}


@pytest.mark.wide
def test_all_requests_copies_conflicts_and_garbage_are_published() -> None:
    made = published()

    arrivals = [arrived(publication) for publication in made.publications]

    garbage = [a for a in arrivals if a.request_id is None]
    bodies: dict[str, set[str | None]] = {}
    for arrival in arrivals:
        if arrival.request_id is not None:
            bodies.setdefault(arrival.request_id, set()).add(arrival.body_digest)
    conflicts = sum(len(digests) - 1 for digests in bodies.values())
    assert bodies.keys() == made.request_ids
    assert len(garbage) + conflicts == made.dead_letters
    assert len(made.publications) > 600 + made.dead_letters  # and there are copies


def test_some_publishers_hash_keys_in_their_own_way() -> None:
    strays = [
        publication
        for publication in published().publications
        if publication.key != b"garbage"
        and publication.partition != owner(publication.key.decode(), PARTITIONS)
    ]

    assert len(strays) > 60


def arrived(publication: Publication) -> Arrival:
    record = Record("requests", publication.partition, 0, START, publication.key, publication.value)
    return arrival_of(record, "requests", PARTITIONS)
