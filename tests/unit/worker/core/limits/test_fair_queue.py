"""A queue that is fair by key, in memory."""

from services.worker.core.limits.fair_queue import FairKey, FairQueue


def drained(queue: FairQueue[str]) -> list[str]:
    found = []
    while entry := queue.next():
        queue.serve(entry[0])
        found.append(entry[1])
    return found


def key_of(item: str) -> FairKey:
    """`a1` is of workflow a; `Ab1` of workflow b of tenant A."""
    return FairKey(item[0], item[1]) if item[0].isupper() else FairKey("", item[0])


def filled(*items: str, gone: str = "") -> FairQueue[str]:
    queue: FairQueue[str] = FairQueue(lambda item: item in gone.split())
    for item in items:
        queue.put(key_of(item), item)
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
    queue.put(key_of("b0"), "b0", first=True)

    assert drained(queue) == ["a1", "b0", "b1"]


def test_what_is_gone_costs_its_key_no_turn() -> None:
    assert drained(filled("a1", "a2", "b1", gone="a1")) == ["a2", "b1"]
    assert drained(filled("a1", "b1", gone="a1 b1")) == []


def test_a_key_that_may_not_be_served_keeps_its_turn() -> None:
    queue = filled("a1", "b1", "c1")

    assert queue.next(lambda key: key.workflow != "a") == (key_of("b"), "b1")
    queue.serve(key_of("b"))
    assert queue.next() == (key_of("a"), "a1")
    assert len(queue) == 2


def test_tenants_take_turns_and_within_one_its_workflows() -> None:
    """B waits for one item of A, however many workflows A has; items without a tenant are one."""
    queue = filled("Aa1", "Aa2", "Ab1", "Ac1", "Ba1", "x1", "y1")

    assert drained(queue) == ["Aa1", "Ba1", "x1", "Ab1", "y1", "Ac1", "Aa2"]
    assert len(queue) == 0


def test_a_workflow_may_be_named_alike_in_two_tenants() -> None:
    queue = filled("Aa1", "Ba1", "Aa2")

    assert len(queue) == 2
    assert drained(queue) == ["Aa1", "Ba1", "Aa2"]


def test_a_tenant_that_may_not_be_served_keeps_its_turn() -> None:
    queue = filled("Aa1", "Ab1", "Ba1", "Aa2")

    assert queue.next(may_tenant=lambda tenant: tenant != "A") == (key_of("Ba1"), "Ba1")
    queue.serve(key_of("Ba1"))
    assert drained(queue) == ["Aa1", "Ab1", "Aa2"]
