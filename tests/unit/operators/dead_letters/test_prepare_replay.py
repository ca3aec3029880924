"""Letters made into requests again."""

import json
from typing import Any

import pytest

from answerbus.dead_letter import DeadLetter, Replayed
from answerbus.limits import REQUEST_BYTES_MAX, REQUEST_ID_CHARS_MAX
from answerbus.registry import Registry
from answerbus.request import Request
from services.operators.dead_letters.edit import Edits, replacing
from services.operators.dead_letters.forecast import (
    REASONS_MAX,
    Forecast,
    KnownNames,
    checked_replay,
    rejection_of,
)
from services.operators.dead_letters.prepare_replay import (
    BudgetOverride,
    PreparedReplay,
    Rejection,
    ReplayOrder,
    prepare_repair,
    prepare_replay,
)
from services.operators.dead_letters.row import BudgetAmounts
from services.operators.dead_letters.worst_case import ProfileCost
from services.operators.records.dead_letter_key import DeadLetterKey
from tests.tariffs import flat
from tests.unit.operators.dead_letters.examples import dead_letter_event, example
from tests.unit.worker.builders import NOW, body

ORDER = ReplayOrder("ops@acme", "prompt fixed")
PRICES = {"default": ProfileCost(500, flat(2, 10)), "free": ProfileCost(500, flat(0, 0))}
KNOWN = KnownNames({"default", "large"}, Registry())
PRICED = KnownNames({"default", "free"}, Registry(), PRICES.get)


def prepared(dead_letter: DeadLetter, order: ReplayOrder = ORDER) -> PreparedReplay:
    found = prepare_replay(dead_letter, order, NOW)
    assert isinstance(found, PreparedReplay), found
    return found


def trouble(dead_letter: DeadLetter, order: ReplayOrder = ORDER) -> Rejection:
    found = prepare_replay(dead_letter, order, NOW)
    assert isinstance(found, Rejection)
    return found


def test_the_replay_of_a_child_is_a_request_of_its_own() -> None:
    """The call of its parent ended with the dead letter: as a child it would be turned down."""
    child = {"parent": {"request_id": "r-0", "call_id": "r-0.1.0"}}
    dead_letter = dead_letter_event("r-0.1.0", request=child)
    assert dead_letter.request is not None
    assert dead_letter.request.parent is not None

    found = prepared(dead_letter)

    assert found.request.parent is None
    assert found.request.replay is not None
    assert not found.request.replay.edited
    assert found.request.account_id == found.request.replay.account
    assert found.replayed.edit == ()


def test_a_dead_letter_becomes_another_request_that_knows_where_it_comes_from() -> None:
    dead_letter = dead_letter_event()
    found = prepared(dead_letter)

    expected = {
        **body("r-1.replay.1"),
        "prior": [{"attempt": 1, "failure": {"kind": "unknown"}, "answer": None}],
        "replay": {
            "dead_letter_id": "r-1.dead-letter",
            "round": 1,
            "account": found.request.account_id,
            "by": "ops@acme",
            "edited": False,
        },
    }
    assert found.request == Request.model_validate_json(json.dumps(expected))
    assert found.replayed == Replayed(
        dead_letter_id="r-1.dead-letter",
        workflow_id="w-0",
        request_id="r-1.replay.1",
        round=1,
        by="ops@acme",
        reason="prompt fixed",
        at=NOW,
    )
    assert found.request.account_id.startswith("w-0~")


def test_reviving_twice_gives_the_same_and_another_dead_letter_gets_another_account() -> None:
    one, other = dead_letter_event("r-1"), dead_letter_event("r-2")

    assert prepared(one) == prepared(one)
    assert prepared(one).request.account_id != prepared(other).request.account_id


def test_edits_profile_and_budget_are_one_patch_and_on_record() -> None:
    wanted = replacing("/context/instructions", "Say it again.")
    order = ReplayOrder(
        "ops@acme", "", Edits((wanted,)), "large", BudgetOverride(attempts=7, tokens=900)
    )
    found = prepared(dead_letter_event(), order)
    request = found.request

    assert request.context.instructions == "Say it again."
    assert (request.profile, request.budget.attempts, request.budget.tokens) == ("large", 7, 900)
    assert request.replay is not None
    assert request.replay.edited
    assert found.replayed.edit == (
        wanted,
        replacing("/profile", "large"),
        replacing("/budget/attempts", 7),
        replacing("/budget/tokens", 900),
    )


def test_what_attempts_came_to_can_be_left_out_or_edited_out() -> None:
    dead_letter = dead_letter_event()
    kept = prepared(dead_letter).request
    fresh = prepared(dead_letter, ReplayOrder("", "", keep_prior=False)).request
    cut = prepared(dead_letter, ReplayOrder("", "", Edits((replacing("/prior", []),)))).request

    assert [prior.attempt for prior in kept.prior] == [1]
    assert (fresh.prior, cut.prior) == ((), ())
    assert fresh.replay is not None
    assert not fresh.replay.edited


def test_rounds_count_on_in_the_first_id_and_need_force_after_the_fifth() -> None:
    dead_letter = dead_letter_event("r-1")
    for n in range(1, 7):
        order = ReplayOrder("ops", "", force=n > 5)
        found = prepared(dead_letter, order)
        assert (found.request.request_id, found.replayed.round) == (f"r-1.replay.{n}", n)
        last, dead_letter = dead_letter, again(found.request)
    assert trouble(last) == Rejection("rounds", "It was replayed 5 times already", forcible=True)


def test_a_dead_letter_of_another_workflow_than_its_request_is_held_back() -> None:
    """Its `Replayed` would name the request's workflow, so that it stays open and is sent again."""
    strange = dead_letter_event().model_copy(update={"workflow_id": "w-2"})

    assert trouble(strange).code == "unreadable"


def again(request: Request) -> DeadLetter:
    """The letter of a replay that died as well."""
    return dead_letter_event(
        request.request_id,
        round=request.replay.round if request.replay else 0,
        request=request.model_dump(mode="json", exclude={"request_id", "workflow_id"}),
    )


def test_long_ids_stay_within_the_limit_and_apart() -> None:
    one, other = "x" * (REQUEST_ID_CHARS_MAX - 1) + "1", "x" * (REQUEST_ID_CHARS_MAX - 1) + "2"
    first = [prepared(dead_letter_event(name)).request for name in (one, other)]
    second = prepared(again(first[0])).request

    assert {len(request.request_id) for request in first} == {REQUEST_ID_CHARS_MAX}
    assert len({request.request_id for request in (*first, second)}) == 3
    assert second.request_id == first[0].request_id.removesuffix("1") + "2"


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        ("/ttl_s", 0, "/ttl_s"),
        ("/profile", "no such name!", "/profile"),
        ("/context/instruction", "x", "non-existent object 'instruction'"),
        ("/workflow_id", "w-9", "`workflow_id` may not be edited"),
    ],
)
def test_an_edit_that_leaves_no_valid_request_is_rejected(path: str, value: Any, text: str) -> None:
    found = trouble(dead_letter_event(), ReplayOrder("", "", Edits((replacing(path, value),))))

    assert found.code in ("edit", "invalid")
    assert not found.forcible
    assert text in found.text


def test_a_member_that_requests_do_not_have_is_rejected() -> None:
    add = replacing("/budget", {"attempts": 1, "tokns": 5})

    assert (
        trouble(dead_letter_event(), ReplayOrder("", "", Edits((add,)))).text
        == "Requests have no /budget/tokns"
    )


def test_what_makes_a_request_too_large_is_left_out() -> None:
    full = {"instructions": "x" * (REQUEST_BYTES_MAX - 5_000)}
    prior = [{"attempt": 1, "failure": {"kind": "unknown"}, "answer": "y" * 10_000}]
    more = replacing("/context/instructions", "x" * REQUEST_BYTES_MAX)

    assert prepared(dead_letter_event(request={"context": full}, prior=prior)).request.prior == ()
    assert trouble(dead_letter_event(), ReplayOrder("", "", Edits((more,)))).code in (
        "edit",
        "too_large",
    )


def unread(name: str, **more: Any) -> DeadLetter:
    return DeadLetter.model_validate_json(json.dumps({**example("dead_letter", name), **more}))


def mended(dead_letter: DeadLetter, request: dict[str, Any]) -> PreparedReplay | Rejection:
    return prepare_repair(dead_letter, json.dumps(request).encode(), ORDER, NOW)


def test_a_repaired_record_keeps_its_id_and_gets_the_link() -> None:
    dead_letter = unread("undecodable")
    found = mended(dead_letter, body("r-1", "order-4711"))

    assert isinstance(found, PreparedReplay)
    assert (found.request.request_id, found.request.profile) == ("r-1", "default")
    assert found.request.replay is not None
    assert found.request.replay.dead_letter_id == dead_letter.dead_letter_id
    assert found.request.replay.edited
    assert (found.replayed.dead_letter_id, found.replayed.request_id) == (
        dead_letter.dead_letter_id,
        "r-1",
    )


def test_a_conflicting_record_gets_an_id_of_its_own() -> None:
    dead_letters = [
        unread("conflicting_id", dead_letter_id=f"answerbus.requests.v1-7-{offset}.dead-letter")
        for offset in (1, 2)
    ]
    ids = set()
    for dead_letter in dead_letters:
        found = mended(dead_letter, body("r-1"))
        assert isinstance(found, PreparedReplay)
        ids.add(found.request.request_id)

    assert len(ids) == 2
    assert all(name.startswith("r-1.replay.1.") for name in ids)


def test_a_request_that_its_dead_letter_could_not_hold_gets_an_id_of_its_own() -> None:
    """Its own has ended: under that it would be dropped as a copy, or conflict."""
    cut = dead_letter_event().model_copy(update={"request": None})
    found = mended(cut, body("r-1"))

    assert isinstance(found, PreparedReplay)
    assert found.request.request_id.startswith("r-1.replay.1.")


@pytest.mark.parametrize(
    ("dead_letter", "request_", "code"),
    [
        (dead_letter_event(), body(), "has_request"),
        (unread("undecodable"), {**body(), "ttl_s": 0}, "invalid"),
        (unread("undecodable"), {**body(), "budgte": {}}, "invalid"),
        (unread("undecodable"), {}, "invalid"),
    ],
)
def test_what_is_rejected_also_after_an_edit(
    dead_letter: DeadLetter, request_: dict[str, Any], code: str
) -> None:
    found = mended(dead_letter, request_)

    assert isinstance(found, Rejection)
    assert found.code == code


@pytest.mark.parametrize(("profile", "code"), [("default", "no_budget"), ("free", None)])
def test_no_money_allows_no_call_that_has_a_price(profile: str, code: str | None) -> None:
    budget = {"attempts": 3, "micro_usd": 0}
    dead_letter = dead_letter_event(request={"budget": budget, "profile": profile})

    found = rejection_of(dead_letter, prepared(dead_letter).request, PRICED)

    assert (found.code if found else None) == code


INLINE = {"kind": "inline", "name": "thing", "json_schema": {"type": "object"}}
HOSTILE = {"kind": "hostile_schema", "problems": []}
UNSUPPORTED = {"kind": "unsupported_schema", "dialect": "openai", "problems": []}
IN_NO_DIALECT = UNSUPPORTED | {"dialect": "any"}
UNKNOWN = {"kind": "contract", "name": "plan_proposal", "version": 99}


@pytest.mark.parametrize(
    ("more", "order", "code"),
    [
        ({}, ORDER, None),
        ({"request": {"profile": "lagre"}}, ORDER, "unknown_profile"),
        ({"request": {"profile": "lagre"}}, ReplayOrder("", "", profile="large"), None),
        ({"request": {"budget": {"attempts": 0}}}, ORDER, "no_budget"),
        ({"request": {"budget": {"attempts": 3, "tokens": 0}}}, ORDER, "no_budget"),
        ({"request": {"answer_schema": UNKNOWN}}, ORDER, "unknown_contract"),
        ({"request": {"answer_schema": INLINE}, "cause": HOSTILE}, ORDER, "schema"),
        ({"request": {"answer_schema": INLINE}, "cause": UNSUPPORTED}, ORDER, "schema"),
        (
            {"request": {"answer_schema": INLINE}, "cause": UNSUPPORTED},
            ReplayOrder("", "", profile="large"),
            None,
        ),
        (
            {"request": {"answer_schema": INLINE}, "cause": IN_NO_DIALECT},
            ReplayOrder("", "", profile="large"),
            "schema",
        ),
        (
            {"request": {"answer_schema": INLINE}, "cause": HOSTILE},
            ReplayOrder("", "", Edits((replacing("/answer_schema/json_schema", True),))),
            None,
        ),
        ({"request": {"answer_schema": INLINE}}, ORDER, None),
    ],
)
def test_what_would_fail_again_at_once_is_held_back_unless_forced(
    more: dict[str, Any], order: ReplayOrder, code: str | None
) -> None:
    dead_letter = dead_letter_event(**more)
    request = prepared(dead_letter, order).request
    found = rejection_of(dead_letter, request, KNOWN)
    forced = ReplayOrder(order.by, order.reason, order.edits, order.profile, force=True)

    assert (found.code if found else None) == code
    assert found is None or found.forcible
    sent = prepared(dead_letter, order)
    assert checked_replay(dead_letter, sent, order, KNOWN) == (found or sent)
    assert checked_replay(dead_letter, sent, forced, KNOWN) == sent


def test_profiles_that_are_not_known_here_are_not_missed() -> None:
    dead_letter = dead_letter_event(request={"profile": "any"})

    assert (
        rejection_of(dead_letter, prepared(dead_letter).request, KnownNames(None, Registry()))
        is None
    )


def test_a_forecast_adds_up_the_worst_and_what_is_held_back() -> None:
    forecast = Forecast(KNOWN)
    for n in range(3):
        dead_letter = dead_letter_event(
            f"r-{n}", request={"budget": {"attempts": 2, "tokens": 100}}
        )
        forecast.take(DeadLetterKey.of(dead_letter), prepared(dead_letter))
    for n in range(2):
        forecast.take(
            DeadLetterKey("w", f"held-{n}"), Rejection("rounds", "It was replayed 5 times already")
        )

    assert (forecast.sendable, forecast.worst_known) == (3, BudgetAmounts(6, 300, None))
    (held,) = forecast.held_back.values()
    assert (held.sample, held.count, forecast.held_back_count) == (
        DeadLetterKey("w", "held-0"),
        2,
        2,
    )


def test_dead_letters_held_back_for_other_reasons_are_counted_apart() -> None:
    forecast = Forecast(KNOWN)
    for n in range(2 * REASONS_MAX):
        why = Rejection("unknown_profile", f"The settings have no profile p-{n}", forcible=True)
        forecast.take(DeadLetterKey("w", f"held-{n}"), why)
        forecast.take(DeadLetterKey("w", f"again-{n}"), why)

    groups = [(held.rejection.text, held.count) for held in forecast.held_back.values()]
    assert groups == [
        *((f"The settings have no profile p-{n}", 2) for n in range(REASONS_MAX)),
        ("Other reasons", 2 * REASONS_MAX),
    ]
