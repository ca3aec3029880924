"""A queue that is fair by key, in memory."""

from services.worker.core.limits.fair_queue import FairQueue


def drained(queue: FairQueue[str]) -> list[str]:
    found = []
    while entry := queue.next():
        queue.serve(entry[0])
        found.append(entry[1])
    return found


def filled(*items: str, gone: str = "") -> FairQueue[str]:
    """Items such as `a1`: the first letter is the key."""
    queue: FairQueue[str] = FairQueue(lambda item: item in gone.split())
    for item in items:
        queue.put(item[0], item)
    return queue


def test_keys_are_served_in_turn_and_items_of_a_key_in_their_order() -> None:
    assert drained(filled("a1", "a2", "a3", "b1", "c1", "c2")) == [
        "a1",
        "b1",
        "c1",
        "a2",
        "c2",
        "a3",
    ]


def test_an_item_may_go_before_the_others_of_its_key() -> None:
    queue = filled("a1", "b1")
    queue.put("b", "b0", first=True)

    assert drained(queue) == ["a1", "b0", "b1"]


def test_what_is_gone_costs_its_key_no_turn() -> None:
    assert drained(filled("a1", "a2", "b1", gone="a1")) == ["a2", "b1"]
    assert drained(filled("a1", "b1", gone="a1 b1")) == []


def test_a_key_that_may_not_be_served_keeps_its_turn() -> None:
    queue = filled("a1", "b1", "c1")

    assert queue.next(lambda key: key != "a") == ("b", "b1")
    queue.serve("b")
    assert queue.next() == ("a", "a1")
    assert len(queue) == 2
