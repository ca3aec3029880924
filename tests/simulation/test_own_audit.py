"""`audit verify` over histories of faults: no false alarm, and no forgery that goes unseen."""

import json
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from answerbus.topics import ATTEMPTS
from services.operators.records.stored import Stored
from services.operators.timeline.timeline import timeline
from tests.simulation.judge import judge
from tests.simulation.own_audit import breaks

FORGERIES = 20  # of each history
BEHIND_ALL = 1_000_000
Records = Sequence[Stored]


def forged(records: Records, chance: random.Random) -> tuple[str, Records]:
    """One attempt is dropped, doubled, put behind all others, or changed in one field."""
    at = chance.choice([n for n, stored in enumerate(records) if stored.topic is ATTEMPTS])
    one, before, behind = records[at], records[:at], records[at + 1 :]
    copy = replace(one, offset=BEHIND_ALL)
    match chance.choice(["dropped", "doubled", "moved", "changed"]):
        case "dropped":
            return f"{one.place} dropped", [*before, *behind]
        case "doubled":
            return f"{one.place} doubled", [*before, one, *behind, copy]
        case "moved":
            others = [n for n in behind if n.topic is ATTEMPTS and n.key == one.key]
            done = "moved" if others else "dropped"  # the last one stays where it is
            return f"{one.place} {done}", [*before, *behind, *([copy] if others else [])]
        case _:
            body = json.loads(one.value or b"")
            name = chance.choice(sorted(body))
            body[name] = "another" if body[name] != "another" else "yet another"
            changed = replace(one, value=json.dumps(body).encode())
            return f"{one.place} with another {name}", [*before, changed, *behind]


@pytest.mark.parametrize("seed", range(12))
def test_histories_of_faults_are_whole_and_forged_ones_are_not(seed: int) -> None:
    records, chance = judge(seed).stored(), random.Random(seed)

    assert breaks(records) == []
    if all(stored.topic is not ATTEMPTS for stored in records):
        return  # no request could be called for, so there is nothing to forge
    for _ in range(FORGERIES):
        what, forgery = forged(records, chance)
        assert breaks(forgery), what


@pytest.mark.parametrize("seed", range(20, 26))
def test_the_stories_of_faults_have_causes_before_effects(seed: int) -> None:
    records = judge(seed).stored()
    workflows = {(stored.key or b"").decode() for stored in records if stored.topic is ATTEMPTS}
    ended = 0
    for workflow_id in sorted(workflows):
        places: dict[str | None, dict[str, list[int]]] = {}
        for place, one in enumerate(timeline(workflow_id, records)):
            places.setdefault(one.request_id, {}).setdefault(one.kind, []).append(place)
        for found in places.values():
            ends = [*found.get("result", ()), *found.get("refusal", ())]
            ended += len(ends)
            for end in ends:
                assert all(place < end for place in found.get("attempt", ()))
                assert all(place < end for place in found.get("retry_request", ()))
                assert found["request"][0] < end

    assert ended > 0  # or this test would test nothing
