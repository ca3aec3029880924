"""Spending in groups: sums agree with the attempts, and memory is bounded."""

from random import Random
from typing import Any

import pytest

from services.console.figures.spend_groups_report import csv_lines, steps_between
from services.console.state.board import LOST, OTHERS
from services.console.state.spend_groups import (
    UNLABELLED,
    GroupAmounts,
    KeysFault,
    SpendGroups,
    Steps,
    keys_of,
)
from services.operators.records.stored import Stored
from services.operators.records.summary import summarize
from tests.cost.budget import spent
from tests.unit.console.context import VIEWER, site
from tests.unit.operators.stored_examples import MINUTE_MS, NOON_MS, body_of, stored

HOUR = Steps(NOON_MS, NOON_MS + 60 * MINUTE_MS, MINUTE_MS)


def groups_of(keys: tuple[str, ...], *records: Stored, **more: Any) -> SpendGroups:
    groups = SpendGroups(keys, HOUR, **more)
    for record in records:
        groups.take(summarize(record))
    return groups


def attempt(micro_usd: int, at_ms: int = NOON_MS, kind: str = "result", **more: Any) -> Stored:
    usage = {"input_tokens": 90, "output_tokens": 10, "micro_usd": micro_usd}
    charged = {"attempts": 1, "tokens": 100, "micro_usd": micro_usd}
    return stored(f"attempt/{kind}", at_ms, **{"usage": usage, "charged": charged, **more})


def charged(micro_usd: int) -> dict[str, Any]:
    """A call whose provider reported nothing."""
    return {"usage": {}, "charged": {"attempts": 1, "tokens": 900, "micro_usd": micro_usd}}


def test_groups_are_by_all_their_keys_and_the_dearest_is_first() -> None:
    schema = body_of("result/dep_bump")["schema"]
    contract = {"schema_digest": schema["digest"]}
    found = groups_of(
        ("contract", "profile", "label.tenant"),
        attempt(30, labels={"tenant": "acme"}, **contract),
        attempt(20, labels={"tenant": "beta"}, **contract),
        attempt(15, labels={"tenant": "acme"}, **contract),
        attempt(1, labels={}, **contract),
        stored("result/dep_bump", NOON_MS + 90 * MINUTE_MS),  # it names the contract
    )

    name = "plan_proposal.v1"
    assert [(row.names, row.amounts.charged_micro_usd) for row in found.rows()] == [
        ((name, "default", "acme"), 45),
        ((name, "default", "beta"), 20),
        ((name, "default", UNLABELLED), 1),
    ]


def test_aborted_and_unknown_calls_are_named_as_such() -> None:
    cut: dict[str, Any] = {"failure": {"kind": "timed_out", "after_s": 5.0}, **charged(70)}
    never: dict[str, Any] = {"failure": {"kind": "unavailable", "status": None}, "usage": {}}
    found = groups_of(
        ("profile",),
        attempt(5),
        attempt(0, kind="retry", **cut),
        attempt(0, kind="retry", **{**never, "charged": {"attempts": 0}}),
        stored("attempt/unknown", NOON_MS, **{"model": None, **charged(900)}),
    )

    assert {row.names[0]: row.amounts for row in found.rows()} == {
        "default": GroupAmounts(3, 1, 0, 100, 5, 75),
        LOST: GroupAmounts(1, 0, 1, 0, 0, 900),
    }
    assert found.total.amounts == GroupAmounts(4, 1, 1, 100, 5, 975)


def test_only_the_time_that_was_asked_for_counts() -> None:
    found = groups_of(
        ("day",),
        attempt(1, NOON_MS - 1),
        attempt(2, NOON_MS),
        attempt(4, HOUR.end_ms - 1),
        attempt(8, HOUR.end_ms),
    )

    (row,) = found.rows()
    assert (row.names, row.amounts.charged_micro_usd) == (("2026-11-21",), 6)
    assert (row.charged_by_step[0], row.charged_by_step[-1]) == (2, 4)


@pytest.mark.wide
@pytest.mark.parametrize("kept", [3, 40, 5_000])
def test_sums_agree_to_the_micro_dollar_with_few_groups_kept_and_with_many(kept: int) -> None:
    """With faults: lost calls, aborted ones, and tools that cost something."""
    chance = Random(34)
    records, sums = [], [0, 0]
    for number in range(2_000):
        cost, tool = chance.randrange(1_000_000), chance.choice((0, 0, 7))
        more: dict[str, Any] = {"labels": {"tenant": f"t-{chance.randrange(300)}"}}
        match chance.randrange(4):
            case 0:
                record = stored("attempt/unknown", NOON_MS, number, **{**charged(cost), **more})
                used = 0
            case 1:
                failure = {"failure": {"kind": "timed_out", "after_s": 5.0}}
                record = attempt(0, kind="retry", **{**charged(cost), **failure, **more})
                used = 0
            case _:
                record = attempt(cost, tools_micro_usd=tool, **more)
                used, cost = cost + tool, cost + tool
        records.append(record)
        sums[0] += used
        sums[1] += cost
    found = groups_of(("profile", "label.tenant"), *records, kept=kept)
    rows = found.rows(10)

    for some in (rows, found.rows()):
        total = GroupAmounts()
        for row in some:
            total = total.plus(row.amounts)
        assert total == found.total.amounts
        assert [total.used_micro_usd, total.charged_micro_usd] == sums
        assert sum(sum(row.charged_by_step) for row in some) == sums[1]
    assert rows[-1].names == (OTHERS, OTHERS)
    assert len(found.rows()) <= 2 * kept + 1


def test_a_group_that_was_dropped_for_a_while_is_a_lower_bound() -> None:
    labels = [attempt(1, labels={"tenant": f"t-{n}"}) for n in range(9)]
    again = [attempt(50, labels={"tenant": f"t-{n}"}) for n in range(9)]
    found = groups_of(("label.tenant",), *labels, *again, kept=2)

    assert any(not row.is_exact for row in found.rows())
    assert groups_of(("label.tenant",), *labels, *again).rows()[0].is_exact


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("contract,colour", "There is no key 'colour'"),
        ("label.", "There is no key 'label.'"),
        ("", "There is no key ''"),
        ("label." + "x" * 4_096, "at most 256 characters: this one has 4,096"),
        ("contract,profile,model,workflow,day", "At most 4 keys"),
    ],
)
def test_keys_that_there_are_not_are_named(text: str, words: str) -> None:
    found = keys_of(text)
    assert isinstance(found, KeysFault)
    assert words in found.reason
    assert len(found.reason) < 300


def test_keys_are_named_once() -> None:
    assert keys_of("contract, label.tenant,contract") == ("contract", "label.tenant")


def test_a_csv_holds_exact_dollars_and_no_formula() -> None:
    found = groups_of(
        ("label.tenant", "profile"),
        attempt(1_234_567, labels={"tenant": '=HYPERLINK("x"),1'}),
        attempt(3, labels={"tenant": "acme"}),
        attempt(2, labels={"tenant": " \uff1d1"}),
        attempt(1, labels={"tenant": "\n=1\u202e"}),
    )

    assert "".join(csv_lines(found, found.rows())).splitlines() == [
        "label.tenant,profile,calls,aborted,unknown,tokens,used_usd,charged_usd,exact",
        '"\'=HYPERLINK(""x""),1",default,1,0,0,100,1.234567,1.234567,yes',
        "acme,default,1,0,0,100,0.000003,0.000003,yes",
        "' \uff1d1,default,1,0,0,100,0.000002,0.000002,yes",
        "\\n=1\\u202e,default,1,0,0,100,0.000001,0.000001,yes",
    ]


def test_names_of_many_accents_take_no_longer_in_a_csv() -> None:
    accents = "\u0301" * 120 + "\u0316" * 120  # are sorted in the square of their number
    labels = ({"tenant": f"{number}{accents}"} for number in range(300))
    found = groups_of(("label.tenant",), *(attempt(1, labels=one) for one in labels))
    rows = found.rows()

    assert spent(lambda: list(csv_lines(found, rows))).is_below(0.03)


def test_a_chart_of_any_time_has_at_most_sixty_steps() -> None:
    for minutes in (1, 59, 61, 1_440, 10_080, 43_200, 200_000):
        steps = steps_between(NOON_MS, NOON_MS + minutes * MINUTE_MS)
        assert 1 <= len(steps.starts_ms) <= 60
        assert steps.end_ms == NOON_MS + minutes * MINUTE_MS


async def test_the_page_shows_groups_and_leads_to_their_csv() -> None:
    records = [
        attempt(2_000_000, NOON_MS - MINUTE_MS, labels={"tenant": "acme"}),
        attempt(1_000_000, NOON_MS - MINUTE_MS, labels={"tenant": "beta"}),
        stored("attempt/unknown", NOON_MS - MINUTE_MS, **charged(500_000)),
    ]
    async with site(*records) as here:
        cookie = await here.log_in(VIEWER)
        text = await (await here.get("/money/groups?by=label.tenant&by=profile", cookie)).text()
        answer = await here.get("/money/groups.csv?by=label.tenant,profile&from=1h", cookie)
        csv = await answer.text()
        wrong = [
            await here.get(f"/money/groups?{query}", cookie)
            for query in ("by=colour", "from=soon", "from=1h&to=2h", "when=1h")
        ]
        stranger = await here.get("/money/groups.csv")

    assert "$3.00 used, $3.50 charged" in text
    assert text.index("acme") < text.index("beta")
    assert "1 unknown" in text
    assert "/money/groups.csv?by=label.tenant%2Cprofile&amp;from=24h" in text
    assert csv.splitlines()[1] == "acme,default,1,0,0,100,2.000000,2.000000,yes"
    assert answer.headers["Content-Disposition"].startswith("attachment")
    assert [one.status for one in wrong] == [400] * 4
    assert stranger.status == 303


@pytest.mark.wide
@pytest.mark.parametrize("page", ["groups", "groups.csv"])
async def test_a_time_before_all_times_is_the_beginning(page: str) -> None:
    async with site(attempt(2_000_000, NOON_MS - MINUTE_MS)) as here:
        answer = await here.get(f"/money/{page}?from=999999d&by=profile", await here.log_in(VIEWER))
        text = await answer.text()

    assert (answer.status, "default" in text) == (200, True)
