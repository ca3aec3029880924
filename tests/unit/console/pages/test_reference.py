"""Topics with what the broker says of them, contracts with examples, the audit as a page."""

from answerbus.topics import RESULTS
from services.console.tasks.audits import AuditRun
from services.console.tasks.topic_polling import GroupStatus, TopicResults, TopicStatus
from services.operators.audit.findings import AuditFinding
from services.operators.audit.verified import Verified
from services.operators.records.stored import Place
from tests.unit.console.context import OPERATOR, VIEWER, Site, site
from tests.unit.operators.stored_examples import NOON_MS, stored


async def text_of(here: Site, path: str, token: str = VIEWER) -> str:
    response = await here.get(path, await here.log_in(token))
    text = await response.text()
    assert response.status == 200, text
    return text


async def test_topics_have_their_sizes_and_groups_their_lag() -> None:
    async with site(stored("result/dep_bump")) as here:
        here.context.topic_poller.results = TopicResults(
            {RESULTS.name: TopicStatus(12, 5_000, 9_000)},
            [GroupStatus("billing", RESULTS, 4_321, 12)],
        )
        text = await text_of(here, "/topics")

    assert "billing" in text
    assert "4,321" in text
    assert "5,000" in text
    assert "MiB" in text


async def test_contracts_have_examples_and_members() -> None:
    async with site() as here:
        text = await text_of(here, "/contracts")

    assert "Example of agent_action v1" in text
    assert "<code>element_id</code>" in text
    assert "get_order" in text


async def test_the_last_verification_is_a_page_and_only_operators_begin_one() -> None:
    async with site() as here:
        place = Place(RESULTS, 3, 77)
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
    async with site(*records) as here:
        text = await text_of(here, "/actions")

    assert "night" in text
    assert "it is back" in text
    assert "/letters/one?id=l" in text
