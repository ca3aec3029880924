"""Topics with what the broker says of them, contracts with examples, the audit as a page."""

import re

from answerbus.topics import RESULTS, STEPS, TOPICS, Topic, tool_calls
from services.console.tasks.audits import AuditRun
from services.console.tasks.topic_polling import GroupStatus, TopicResults, TopicStatus
from services.operators.audit.findings import AuditFinding
from services.operators.audit.verified import Verified
from services.operators.records.stored import RecordPosition, Stored
from tests.unit.console.context import OPERATOR, VIEWER, Site, site
from tests.unit.operators.stored_examples import MINUTE_MS, NOON_MS, stored

TOOLS = tool_calls("orders")


async def text_of(here: Site, path: str, token: str = VIEWER) -> str:
    response = await here.get(path, await here.log_in(token))
    text = await response.text()
    assert response.status == 200, text
    return text


async def test_topics_have_their_sizes_and_groups_their_lag() -> None:
    async with site(stored("result/dep_bump")) as here:
        here.context.topic_poller.results = TopicResults(
            {RESULTS: TopicStatus(12, 5_000, 9_000)},
            [GroupStatus("billing", RESULTS, 4_321, 12)],
        )
        text = await text_of(here, "/topics")

    assert "billing" in text
    assert "4,321" in text
    assert "5,000" in text
    assert "MiB" in text


async def test_topics_of_runs_and_tools_have_their_figures_once_they_are_counted() -> None:
    async with site() as here:
        results = TopicResults(
            dict.fromkeys((*TOPICS, STEPS, TOOLS), TopicStatus(12, 5_000, 9_000)),
            [GroupStatus("answerbus.tools.orders", TOOLS, 77, 12)],
        )
        here.context.topic_poller.results = results
        text = await text_of(here, "/topics")
        assert row_of(text, STEPS) == ["0", "12", "5,000", "–", "–"]
        assert row_of(text, TOOLS) == ["–", "12", "5,000", "–", "–"]

        counter = here.context.topic_counter
        counter.topics = frozenset((TOOLS,))
        call = Stored(TOOLS, 0, 0, NOON_MS - MINUTE_MS, b"k", b"v" * 1_023, ())
        counter.counts.take(call)
        text = await text_of(here, "/topics")

    assert row_of(text, TOOLS) == ["1", "12", "5,000", "1.0 KiB", "4.9 MiB"]
    assert re.search(r"answerbus\.tools\.orders<.*?>77<", text, re.DOTALL)


def row_of(text: str, topic: Topic) -> list[str]:
    """The numbers in a topic's row."""
    row = text.partition(f">{topic.full_name()}</a>")[2].partition("</tr>")[0]
    return re.findall(r'<td class="n"[^>]*>([^<]*)</td>', row)


async def test_contracts_have_examples_and_members() -> None:
    async with site() as here:
        text = await text_of(here, "/contracts")

    assert "Example of agent_action v1" in text
    assert "<code>element_id</code>" in text
    assert "get_order" in text


async def test_the_last_verification_is_a_page_and_only_operators_begin_one() -> None:
    async with site() as here:
        place = RecordPosition(RESULTS, 3, 77)
        finding = AuditFinding("spent", "acct", "e-1", place, "3 attempts")
        verified = Verified(attempts=1_234, accounts=5, breaks=[finding])
        here.context.audits.last = AuditRun("night", NOON_MS, 9, 9, NOON_MS, verified)
        text = await text_of(here, "/audit")

        assert "broken in 1 place<" in text
        assert "1,234" in text
        assert "what was charged does not add up" in text
        assert "Verify now" not in text
        assert "Verify now" in await text_of(here, "/audit", OPERATOR)

        cookie = await here.log_in(VIEWER)
        session = here.context.guard.sessions.find(cookie, 0.0)
        assert session
        response = await here.post("/audit", {"csrf": session.csrf}, cookie)
        assert response.status == 403


async def test_actions_name_who_did_what_and_why() -> None:
    records = (
        stored("dead_letter/unknown_profile", dead_letter_id="l"),
        stored("replayed/unchanged", offset=1, dead_letter_id="l", by="night", reason="it is back"),
    )
    async with site(*records, stored("approval/denied", by="day", reason="too much")) as here:
        text = await text_of(here, "/actions")

    assert "day" in text
    assert "too much" in text
    assert "night" in text
    assert "it is back" in text
    assert "/letters/one?id=l" in text


async def test_a_runbook_is_read_without_a_login() -> None:
    """An alert links it, at night, in a browser that has no session."""
    async with site() as here:
        response = await here.get("/runbooks/lane-stuck")
        text = await response.text()

        assert response.status == 200
        assert "<h1>A lane is stuck</h1>" in text
        assert '<a href="/runbooks/kafka-away">' in text
        assert (await here.get("/runbooks/nothing")).status == 404
