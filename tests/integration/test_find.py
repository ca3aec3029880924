"""A text of a prompt is found on a real Kafka, the newest first, within a time."""

import json
from collections.abc import Sequence

import pytest

from answerbus.client.bus import Bus as ClientBus
from services.operators.adapters import prompt_search
from services.operators.adapters.prompt_search import PromptSearch, search_prompts
from tests.integration.bus import Bus, request
from tests.integration.command_line import answerbus

pytestmark = pytest.mark.kafka

REQUESTS_EACH = 60
LIMIT_S = 60.0


def asked(number: int, text: str) -> dict[str, object]:
    body = request(f"r-{number}", f"order-{number % 7}")
    return {**body, "context": {"instructions": f"{text}, question {number}"}}


def names(found: PromptSearch) -> Sequence[str]:
    return [match.key.request_id for match in found.matches]


async def test_prompts_are_found_in_windows_from_the_end(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompt_search, "WINDOW_OFFSETS", 3)
    await bus.publish([asked(0, "Zanzibar"), asked(1, "zanzibar")])
    await bus.publish([asked(number, "Elsewhere") for number in range(2, REQUESTS_EACH)])
    outside = ClientBus(bus.bootstrap, bus.prefix, {})

    found = await search_prompts(outside, "ZANZIBAR", within_s=LIMIT_S, matches_max=10)
    assert sorted(names(found)) == ["r-0", "r-1"]
    assert (found.looked_at, found.back_to_ms) == (REQUESTS_EACH, None)

    few = await search_prompts(outside, "question", within_s=LIMIT_S, matches_max=3)
    assert len(few.matches) == 3
    assert few.looked_at < REQUESTS_EACH
    assert few.back_to_ms is not None

    none = await search_prompts(outside, "question", within_s=0, matches_max=3)
    assert (none.matches, none.looked_at) == ([], 0)
    assert none.back_to_ms is not None


async def test_the_command_prints_matches_and_its_exit_code_says_whether_there_are_any(
    bus: Bus,
) -> None:
    await bus.publish([asked(0, "Zanzibar"), asked(1, "Elsewhere")])

    found = await answerbus(bus.bootstrap, bus.prefix, "find", "zanzibar", "--json")
    assert found.code == 0, found.err
    (match,) = json.loads(found.out)["matches"]
    assert (match["request_id"], match["part"]) == ("r-0", "instructions")
    none = await answerbus(bus.bootstrap, bus.prefix, "find", "Atlantis")
    assert none.code == 1
    assert "Searched 2 records, all that Kafka still has" in none.err
