"""Letters grouped and chosen."""

from collections.abc import Callable

import pytest

from services.operators.dead_letters.groups import (
    ORDERS,
    FirstGroups,
    Group,
    GroupFold,
    Key,
    first_groups,
    group,
    key_of,
    members,
)
from services.operators.dead_letters.index import DeadLetterIndex
from services.operators.dead_letters.row import BudgetAmounts
from services.operators.dead_letters.selection import Selection, select
from services.operators.records.dead_letter_key import DeadLetterKey
from services.operators.records.stored import RecordPosition
from tests.unit.operators.dead_letters.examples import at, dead_letter_body, folded, replayed_body

CONTRACT = {"kind": "contract", "name": "plan_proposal", "version": 2}
HOUR_MS = 3_600_000
NOW_MS = 1_795_255_200_000


def some() -> DeadLetterIndex:
    """Three of acme: two in one workflow; one of another tenant, which was replayed."""
    return folded(
        dead_letter_body("r-1", "w-1", labels={"tenant": "acme"}, at=at(3600)),
        dead_letter_body("r-2", "w-1", labels={"tenant": "acme"}, at=at(0)),
        dead_letter_body(
            "r-3",
            "w-2",
            labels={"tenant": "acme"},
            cause={"kind": "deadline_passed"},
            prior=[],
            request={"answer_schema": CONTRACT, "profile": "large"},
        ),
        dead_letter_body("r-4", "w-3", labels={"tenant": "zeta"}),
        replayed_body("r-4"),
    )


def test_groups_count_and_name_a_sample_and_count_each_account_once() -> None:
    groups = group(some(), [Key("cause"), Key("label:", "tenant")])

    assert groups == [
        Group(
            ("budget_exhausted", "acme"),
            2,
            NOW_MS,
            NOW_MS + HOUR_MS,
            DeadLetterKey("w-1", "r-1.dead-letter"),
            BudgetAmounts(1, 10, 0),
        ),
        Group(
            ("budget_exhausted", "zeta"),
            1,
            NOW_MS,
            NOW_MS,
            DeadLetterKey("w-3", "r-4.dead-letter"),
            BudgetAmounts(1, 10, 0),
        ),
        Group(
            ("deadline_passed", "acme"),
            1,
            NOW_MS,
            NOW_MS,
            DeadLetterKey("w-2", "r-3.dead-letter"),
            BudgetAmounts(1, 10, 0),
        ),
    ]


@pytest.mark.parametrize("costs", [(100, 1_000), (1_000, 100)])
def test_an_account_has_spent_what_tools_cost_after_its_last_attempt(
    costs: tuple[int, int],
) -> None:
    limit = {"attempts": 3}
    letters = folded(
        *(
            dead_letter_body(
                f"r-{n}",
                "w-1",
                account={
                    "id": "w-1",
                    "limit": limit,
                    "spent": {"attempts": 3, "tokens": 10, "micro_usd": cost},
                },
            )
            for n, cost in enumerate(costs)
        )
    )
    most = BudgetAmounts(3, 10, 1_000)

    (found,) = group(letters, [Key("workflow")])
    assert found.spent == most
    folding = GroupFold()
    folding.add(members(list(letters)[:1], [Key("workflow")]))
    folding.add(members(list(letters)[1:], [Key("workflow")]))
    (found,) = folding.first("spent", 1).groups
    assert found.spent == most


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("keys", [["cause"], ["workflow"], ["cause", "label:tenant"]])
def test_the_first_groups_are_those_that_come_first_of_all(order: str, keys: list[str]) -> None:
    dead_letters, chosen = list(some()), [key for name in keys if (key := key_of(name))]
    ranks_of: dict[str, Callable[[Group], int]] = {
        "letters": lambda found: -found.count,
        "newest": lambda found: -found.newest_ms,
        "oldest": lambda found: found.oldest_ms,
        "spent": lambda found: -(found.spent.micro_usd or 0),
    }
    rank = ranks_of[order]
    everything = sorted(group(dead_letters, chosen), key=rank)
    ranks = [rank(found) for found in everything]

    for most in range(len(everything) + 2):
        first = first_groups(members(dead_letters, chosen), order, most)

        assert first.total == len(everything)
        assert [rank(found) for found in first.groups] == ranks[:most]
        assert all(found in everything for found in first.groups)
    assert first_groups({}, order, 1) == FirstGroups(0, [])


@pytest.mark.parametrize(
    ("key", "counts"),
    [
        ("cause", {"budget_exhausted": 3, "deadline_passed": 1}),
        ("failure", {"unknown": 3, None: 1}),
        ("contract", {"text": 3, "plan_proposal.v2": 1}),
        ("profile", {"default": 3, "large": 1}),
        ("model", {None: 4}),
        ("workflow", {"w-1": 2, "w-2": 1, "w-3": 1}),
        ("round", {"0": 4}),
        ("status", {"open": 3, "replayed": 1}),
        ("label:tenant", {"acme": 3, "zeta": 1}),
        ("label:absent", {None: 4}),
    ],
)
def test_every_key_groups(key: str, counts: dict[str | None, int]) -> None:
    known = key_of(key)

    assert known is not None
    assert str(known) == key
    assert {found.values[0]: found.count for found in group(some(), [known])} == counts


@pytest.mark.parametrize("text", ["", "label", "label:", "causes", "Cause"])
def test_what_is_no_key_is_none(text: str) -> None:
    assert key_of(text) is None


@pytest.mark.parametrize(
    ("selection", "ids"),
    [
        (Selection(), ["r-2", "r-3", "r-1"]),
        (Selection(limit=2), ["r-2", "r-3"]),
        (Selection(limit=0), []),
        (Selection(where=((Key("cause"), "deadline_passed"),)), ["r-3"]),
        (Selection(where=((Key("failure"), None),)), ["r-3"]),
        (Selection(where=((Key("contract"), "plan_proposal"),)), ["r-3"]),
        (Selection(where=((Key("contract"), "plan_proposal.v2"),)), ["r-3"]),
        (Selection(where=((Key("contract"), "plan_proposal.v1"),)), []),
        (
            Selection(where=((Key("label:", "tenant"), "acme"), (Key("workflow"), "w-1"))),
            ["r-2", "r-1"],
        ),
        (
            Selection(ids=frozenset({"r-1.dead-letter", "r-4.dead-letter@w-3"})),
            ["r-1"],
        ),
        (Selection(statuses=frozenset({"replayed"})), ["r-4"]),
        (Selection(statuses=frozenset({"open", "replayed"})), ["r-2", "r-3", "r-4", "r-1"]),
        (Selection(since_ms=NOW_MS + 1), ["r-1"]),
        (Selection(until_ms=NOW_MS + HOUR_MS), ["r-2", "r-3"]),
    ],
)
def test_a_selection_takes_what_meets_all_of_it_oldest_first(
    selection: Selection, ids: list[str]
) -> None:
    assert [dead_letter.request_id for dead_letter in select(some(), selection)] == ids


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("inline", ["r-1", "r-2"]),  # as metrics have it, and links from their panels
        ("search", ["r-1"]),
        ("inline search", ["r-1"]),
        ("text", ["r-4"]),
        ("plan_proposal", ["r-3"]),
        ("plan_proposal.v2", ["r-3"]),
        ("inline nothing", []),
        ("", []),
    ],
)
def test_a_contract_is_found_by_its_kind_its_name_and_both(wanted: str, found: list[str]) -> None:
    inline = {"kind": "inline", "json_schema": {}}
    dead_letters = folded(
        dead_letter_body("r-1", request={"answer_schema": {**inline, "name": "search"}}),
        dead_letter_body("r-2", request={"answer_schema": {**inline, "name": "other"}}),
        dead_letter_body("r-3", request={"answer_schema": CONTRACT}),
        dead_letter_body("r-4"),
    )

    chosen = select(dead_letters, Selection(where=((Key("contract"), wanted),)))

    assert sorted(dead_letter.request_id or "" for dead_letter in chosen) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("W-1", ["r-1", "r-2"]),
        ("r-3", ["r-3"]),
        ("R-3.DEAD", ["r-3"]),
        ("ACM", ["r-1", "r-2", "r-3"]),
        ("tenant", ["r-1", "r-2", "r-3"]),
        ("zeta", []),
        ("attempts", []),
        ("nowhere", []),
    ],
)
def test_a_text_is_looked_for_in_ids_labels_and_codes(text: str, found: list[str]) -> None:
    chosen = select(some(), Selection(text=text))

    assert sorted(dead_letter.request_id or "" for dead_letter in chosen) == found


def test_what_came_after_a_page_was_read_is_not_meant() -> None:
    dead_letters = some()
    seen = tuple(dead_letters.ends.items())
    before = select(dead_letters, Selection(seen=seen))
    rest = folded(*(dead_letter_body(f"new-{n}") for n in range(3)))
    for number, dead_letter in enumerate(rest):
        dead_letter.place = RecordPosition(dead_letter.place.topic, 0, dict(seen)[0] + number)

    assert len(before) == 3
    assert select([*dead_letters, *rest], Selection(seen=seen)) == before
    assert len(select([*dead_letters, *rest], Selection())) == 6
    assert select([*dead_letters, *rest], Selection(seen=((7, 9),))) == []
