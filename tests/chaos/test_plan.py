"""What a run will do is drawn from its seed: the same again, and of every kind."""

import random
from collections import Counter

from tests.chaos import script
from tests.chaos.audit.arrival import Arrival, arrival_of
from tests.chaos.audit.canonical import owner
from tests.chaos.audit.record import Record
from tests.chaos.by_hand.story import START
from tests.chaos.faults import Kind, faults
from tests.chaos.workload import Publication, Workload, workload

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

        assert set(kinds[: len(Kind)]) == set(Kind)


def test_about_three_calls_in_ten_go_wrong() -> None:
    chance = random.Random(1)

    letters = Counter("".join(script.plot(chance) for _ in range(2_000)))

    wrong = 1 - letters[script.ANSWER] / letters.total()
    assert abs(wrong - script.MISHAP_SHARE) < 0.02
    assert letters.keys() == {script.ANSWER, *script.MISHAPS}


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
    assert len(garbage) + conflicts == made.letters
    assert len(made.publications) > 600 + made.letters  # and there are copies


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
