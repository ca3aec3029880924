"""The pages about runs: what they show and to whom, and what an operator can decide there."""

import json
import re

import pytest
from pydantic import JsonValue

from answerbus.control import Approval, Cancel, Input
from answerbus.envelope import encode
from answerbus.event import Event
from answerbus.topics import ATTEMPTS as ATTEMPTS_TOPIC
from answerbus.topics import STEPS, TOPIC_OF_KIND
from services.console.pages.runs import APPROVALS_OPEN, APPROVALS_SHOWN_MAX, PAGE_RUNS
from services.console.streams import live_parts
from services.operators.records.stored import Stored
from services.operators.runs.shown_args import ARGS_CHARS_MAX
from services.text.digest import canonical_digest
from tests.unit.console.context import NIGHT, OPERATOR, VIEWER, NotedControls, Site, site
from tests.unit.operators.runs.events import (
    WORKFLOW,
    approval_asked,
    asked,
    attempt,
    call,
    decided,
    ended,
    result,
    step,
)
from tests.unit.operators.runs.large_tree import ATTEMPTS, CHILDREN, large_tree
from tests.unit.operators.stored_examples import NOON_MS

SAID = "what-was-said-in-confidence"
TOO_FEW = {STEPS: 100, ATTEMPTS_TOPIC: 10}
SCRIPT_TEXT = "\"'><script>alert(1)</script>"
CALL = "r-1.call.1.1"
DIGEST = canonical_digest({SCRIPT_TEXT: SAID})
OF_CALL = {"workflow": WORKFLOW, "call": CALL, "digest": DIGEST}


def of(*events: Event) -> list[Stored]:
    return [
        Stored(TOPIC_OF_KIND[one.kind], 0, offset, NOON_MS, b"k", encode(one).value, ())
        for offset, one in enumerate(events)
    ]


def a_run() -> list[Stored]:
    refund = call(
        "r-1", 1, 1, tool="orders.refund", state="awaits_approval", args={SCRIPT_TEXT: SAID}
    )
    return of(
        asked("r-1", agent={"name": "support"}),
        attempt("r-1", 1),
        step(
            "r-1", 1, call("r-1", 1, args={"order": SAID}), refund, said=[f"{SAID} {SCRIPT_TEXT}"]
        ),
        ended("r-1.call.1.0", outcome={"kind": "ok", "value": SAID}),
        approval_asked(CALL, args={SCRIPT_TEXT: SAID}, args_digest=DIGEST),
    )


async def text_of(here: Site, path: str, token: str = OPERATOR) -> str:
    response = await here.get(path, await here.log_in(token))
    assert response.status == 200, await response.text()
    return await response.text()


def written(here: Site) -> list[Approval | Input | Cancel]:
    controls = here.context.controls
    assert isinstance(controls, NotedControls)
    return controls.written


async def post(
    here: Site, path: str, form: dict[str, str], token: str = OPERATOR, *, csrf: bool = True
) -> int:
    cookie = await here.log_in(token)
    page = await (await here.get("/runs", cookie)).text()
    found = re.search(r'name="csrf" value="([^"]+)"', page)
    if csrf and found:
        form = {**form, "csrf": found.group(1)}
    return (await here.post(path, form, cookie)).status


async def test_open_runs_and_what_they_await_are_listed() -> None:
    async with site(*a_run()) as here:
        text = await text_of(here, "/runs")

    assert "1 call awaits a person" in text
    assert "1 open run" in text
    assert "support v3" in text
    assert "orders.refund" in text
    assert SAID in text
    assert "<script>alert" not in text


@pytest.mark.parametrize("path", ["/runs", f"/workflow?id={WORKFLOW}"])
async def test_viewers_see_that_there_are_runs_and_nothing_of_what_was_said(path: str) -> None:
    async with site(*a_run()) as here:
        text = await text_of(here, path, VIEWER)

    assert "orders.refund" in text
    assert SAID not in text
    assert "/runs/decide" not in text
    assert "/runs/cancel" not in text


async def test_the_page_of_a_workflow_shows_the_tree_with_what_can_be_done() -> None:
    async with site(*a_run()) as here:
        text = await text_of(here, f"/workflow?id={WORKFLOW}")

    assert "r-1 support v3 · 1 step" in text
    assert "orders.refund" in text
    assert "awaits approval" in text
    assert f'name="call" value="{CALL}"' in text
    assert 'action="/runs/cancel"' in text
    assert "<script>alert" not in text


async def test_the_tree_is_whole_where_the_timeline_is_shortened() -> None:
    """It has more attempts and results than the timeline shows, and each node its cost."""
    async with site(*of(*large_tree())) as here:
        text = await text_of(here, f"/workflow?id={WORKFLOW}")

    assert text.count('<li class="depth-3 run">') == CHILDREN
    assert text.count("3 attempts · 2,628 tokens · $0.0010 · answered") == CHILDREN
    assert f"{876 * ATTEMPTS:,} tokens" in text
    assert "itself 5 attempts, 4,380 tokens, $0.0017" in text
    assert "older records are left out of the runs" not in text


async def test_a_tree_that_is_too_large_says_that_its_costs_are_higher(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, few in {"OF_TREES_MAX": TOO_FEW, "STEPS_MAX": 100, "RECORDS_MAX": 10}.items():
        monkeypatch.setattr(f"services.console.pages.workflow.{name}", few)
    async with site(*of(*large_tree())) as here:
        text = await text_of(here, f"/workflow?id={WORKFLOW}")

    assert "older records are left out of the runs, whose costs are higher by them" in text


@pytest.mark.parametrize("decision", ["approved", "denied"])
async def test_an_operator_decides_in_their_own_name(decision: str) -> None:
    form = {**OF_CALL, "decision": decision, "reason": "phoned"}
    async with site(*a_run()) as here:
        assert await post(here, "/runs/decide", form, NIGHT) == 303
        (control,) = written(here)

    assert isinstance(control, Approval)
    assert (control.call_id, control.args_digest) == (CALL, DIGEST)
    assert (control.decision, control.by, control.reason) == (decision, "night@acme", "phoned")
    assert control.workflow_id == WORKFLOW


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (json.dumps({SCRIPT_TEXT: "less"}), 303),
        (json.dumps({SCRIPT_TEXT: SAID}, indent=2).replace("\n", "\r\n"), 303),
        ("", 422),
        ("{", 422),
        ("[]", 422),
        (json.dumps({"text": "x" * 70_000}), 422),
    ],
)
async def test_an_operator_approves_what_is_in_the_form(text: str, status: int) -> None:
    form = {**OF_CALL, "decision": "approved", "reason": "less", "args": text}
    async with site(*a_run()) as here:
        assert await post(here, "/runs/decide", form, NIGHT) == status
        controls = written(here)

    assert len(controls) == (status == 303)
    for control in controls:
        assert isinstance(control, Approval)
        is_changed = "less" in text
        assert control.args == ({SCRIPT_TEXT: "less"} if is_changed else None)
        assert control.asked_digest == (DIGEST if is_changed else None)
        assert control.args_digest == canonical_digest(json.loads(text))


MALLORY = "and 99,000,000 cents to Mallory"


@pytest.mark.parametrize("page", ["/runs", f"/workflow?id={WORKFLOW}"])
async def test_arguments_are_shown_whole_where_they_are_decided_on(page: str) -> None:
    args: dict[str, JsonValue] = {"note": "x" * 300 + MALLORY}
    requested = approval_asked(CALL, args=args, args_digest=canonical_digest(args))
    async with site(*a_run()[:-1], *of(requested)) as here:
        assert MALLORY in await text_of(here, page)


async def test_what_was_cut_is_not_approved_without_its_digest() -> None:
    args: dict[str, JsonValue] = {"note": "x" * ARGS_CHARS_MAX + MALLORY}
    digest = canonical_digest(args)
    requested = approval_asked(CALL, args=args, args_digest=digest)
    form = {**OF_CALL, "digest": digest, "decision": "approved", "reason": "phoned"}
    async with site(*a_run()[:-1], *of(requested)) as here:
        text = await text_of(here, "/runs")
        assert MALLORY not in text
        assert f"answerbus approvals show {CALL} --workflow {WORKFLOW}" in text
        for typed in ("", "00000000", digest[7:14]):
            assert await post(here, "/runs/decide", {**form, "typed": typed}, NIGHT) == 409
        assert written(here) == []
        assert await post(here, "/runs/decide", {**form, "typed": digest[7:15]}, NIGHT) == 303
        assert len(written(here)) == 1


async def test_the_form_of_the_first_delivery_does_not_allow_a_second() -> None:
    again = approval_asked(CALL, args={SCRIPT_TEXT: SAID}, args_digest=DIGEST, delivery=2)
    form = {**OF_CALL, "decision": "approved", "reason": "phoned", "delivery": "1"}
    async with site(*a_run()[:-1], *of(again)) as here:
        assert 'name="delivery" value="2"' in await text_of(here, "/runs")
        assert await post(here, "/runs/decide", form, NIGHT) == 409
        assert written(here) == []
        assert await post(here, "/runs/decide", {**form, "delivery": "2"}, NIGHT) == 303
        (control,) = written(here)

    assert isinstance(control, Approval)
    assert control.delivery == 2


async def test_arguments_that_are_not_those_of_the_digest_are_not_approved() -> None:
    requested = approval_asked(CALL, args={"cents": 1}, args_digest=DIGEST)
    form = {**OF_CALL, "decision": "approved", "reason": "phoned"}
    async with site(*a_run()[:-1], *of(requested)) as here:
        assert await post(here, "/runs/decide", form, NIGHT) == 409
        assert written(here) == []


async def test_an_operator_cancels_a_run() -> None:
    async with site(*a_run()) as here:
        form = {"request": "r-1", "workflow": WORKFLOW, "reason": "enough"}
        assert await post(here, "/runs/cancel", form, NIGHT) == 303
        (control,) = written(here)

    assert isinstance(control, Cancel)
    assert (control.scope, control.request_id, control.workflow_id, control.by) == (
        *("request", "r-1"),
        *(WORKFLOW, "night@acme"),
    )


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"digest": "sha256:" + "2" * 64}, 409),  # other arguments than the person saw
        ({"call": "r-1.call.1.0"}, 409),
        ({"call": ""}, 409),
        ({"decision": "perhaps"}, 400),
        ({"reason": "  "}, 400),
    ],
)
async def test_what_cannot_be_decided_is_not_written(changes: dict[str, str], status: int) -> None:
    form = {**OF_CALL, "decision": "approved", "reason": "yes", **changes}
    async with site(*a_run()) as here:
        assert await post(here, "/runs/decide", form) == status
        assert written(here) == []


async def test_a_form_without_its_session_or_of_a_viewer_writes_nothing() -> None:
    decide = {**OF_CALL, "decision": "approved", "reason": "yes"}
    cancel = {"request": "r-1", "workflow": WORKFLOW, "reason": "yes"}
    async with site(*a_run()) as here:
        for path, form in (("/runs/decide", decide), ("/runs/cancel", cancel)):
            assert await post(here, path, form, VIEWER) == 403
            assert await post(here, path, form, csrf=False) == 403
        empty = {**cancel, "request": ""}
        assert await post(here, "/runs/cancel", empty) == 400
        assert written(here) == []


@pytest.mark.parametrize(
    "more",
    [
        [decided(CALL)],
        [ended(CALL, "denied")],
        [result("r-1")],
        [
            result(
                "r-1",
                run={"agent": json.loads(step("r-1", 1).model_dump_json())["agent"]}
                | {"steps": 1, "tool_calls": 2},
            )
        ],
    ],
    ids=["decided", "ended", "answered", "answered as a run"],
)
@pytest.mark.parametrize("order", [1, -1], ids=["read last", "read first"])
async def test_what_is_over_awaits_nothing(more: list[Event], order: int) -> None:
    later = [
        Stored(TOPIC_OF_KIND[one.kind], 0, 50, NOON_MS, b"k", encode(one).value, ()) for one in more
    ]
    own = json.loads(later[0].value or b"")
    if order < 0 and "run" not in own:
        order = 1  # what one partition says is read in its order
    async with site(*[*a_run(), *later][::order]) as here:
        text = await text_of(here, "/runs")

    assert "0 calls await a person" in text
    assert ("0 open runs" in text) == (own["kind"] == "result")


async def test_many_runs_are_pages_and_many_approvals_are_folded_away() -> None:
    events = [
        one
        for n in range(PAGE_RUNS + 5)
        for one in (
            asked(f"r-{n:03}", agent={"name": "support"}),
            approval_asked(f"r-{n:03}.call.1.0", args={"n": n}),
        )
    ]
    async with site(*of(*events)) as here:
        first, second = await text_of(here, "/runs"), await text_of(here, "/runs?page=1")
        cookie = await here.log_in(OPERATOR)
        unknown = (await here.get("/runs?pages=1", cookie)).status

    assert f"{PAGE_RUNS + 5} calls await a person" in first
    assert f"The {APPROVALS_SHOWN_MAX} oldest are shown" in first
    assert first.count('class="card approval"') == APPROVALS_SHOWN_MAX
    assert len(re.findall(r'class="card approval"[^>]* open>', first)) == APPROVALS_OPEN
    assert [text.count('<tr data-key="r-') for text in (first, second)] == [PAGE_RUNS, 5]
    assert "Page 2 of 2" in second
    assert f'data-key="r-{PAGE_RUNS + 4:03}"' in second
    assert unknown == 400


async def test_pages_of_runs_are_live() -> None:
    async with site(*a_run()) as here:
        parts = live_parts(await text_of(here, "/runs"))

    assert {"status", "approvals", "runs"} <= parts.keys()
    assert "orders.refund" in parts["approvals"]
    assert "r-1" in parts["runs"]
