"""Where the records of a workflow stand."""

import random

from answerbus.topics import TOPICS
from services.console.state.workflow_index import RUN_RECORDS, WorkflowIndex
from services.operators.records.stored import RecordPosition


def test_the_index_finds_all_records_of_a_workflow_in_order() -> None:
    chance = random.Random(7)
    index, expected = WorkflowIndex(), []
    count = 2 * RUN_RECORDS + 500  # two sorted runs and a rest
    for offset in range(count):
        place = RecordPosition(chance.choice(TOPICS), chance.randrange(12), offset + 2**40)
        workflow = f"w-{chance.randrange(1_000)}"
        index.add(workflow, place)
        if workflow == "w-7":
            expected.append(place)

    found = index.find("w-7")

    assert sorted(found, key=lambda place: place.offset) == expected
    assert found == sorted(
        found, key=lambda place: (TOPICS.index(place.topic), place.partition, place.offset)
    )
    assert index.find("nobody") == []
