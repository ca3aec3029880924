"""The contract is on one page: short, and with each name that clients rely on."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
CONTRACT = (ROOT / "docs/wire.md").read_text(encoding="utf-8")
PRIVATE_RECORDS = (ROOT / "docs/private-records.md").read_text(encoding="utf-8")
WORDS_MAX = 2_500
SCHEMAS = sorted((ROOT / "contracts/schemas/events").glob("*.json"))
PRIVATE = {
    "account",
    "attempt",
    "budget_lease",
    "budget_share",
    "closed",
    "closed_ids",
    "compared",
    "dismissed",
    "lane",
    "replayed",
    "retry_request",
    "run",
    "run_call",
    "run_cancel",
    "run_child",
    "run_resumed",
    "run_step",
    "skipped",
    "tool_accepted",
}


def words_of(text: str) -> set[str]:
    return set(re.findall(r"[a-z_]+", text))


def test_the_contract_fits_on_one_page() -> None:
    assert len(CONTRACT.split()) <= WORDS_MAX


@pytest.mark.parametrize("file", SCHEMAS, ids=lambda file: file.name.partition(".")[0])
def test_each_event_and_each_of_its_members_is_explained(file: Path) -> None:
    kind = file.name.partition(".")[0]
    members = json.loads(file.read_text(encoding="utf-8"))["properties"]

    if kind in PRIVATE:
        assert kind in words_of(PRIVATE_RECORDS)
    else:
        assert {kind, *members} - words_of(CONTRACT) == set()


def members_with_null(schema: dict[str, Any]) -> set[str]:
    members = schema["properties"].items()
    return {name for name, member in members if {"type": "null"} in member.get("anyOf", ())}


def test_the_members_of_a_request_that_may_be_null_are_named() -> None:
    request = json.loads((ROOT / "contracts/schemas/events/request.v1.json").read_text())
    agent = request["$defs"]["AgentRef"]
    (rule,) = re.findall(r"^Null stands for an absent (.*) or member of `agent`;", CONTRACT, re.M)

    found = members_with_null(request) | members_with_null(request["$defs"]["Budget"])
    assert set(re.findall(r"`(\w+)`", rule)) == found
    assert members_with_null(agent) == agent["properties"].keys() - set(agent["required"])


def test_a_question_of_a_tool_can_be_answered_from_the_page() -> None:
    """Without its number, the answer would be taken for one to the first question."""
    (answer,) = re.findall(r'^\{"kind":"input",.*\}$', CONTRACT, re.M)

    schema = json.loads((ROOT / "contracts/schemas/events/input.v1.json").read_text())
    assert json.loads(answer).keys() == schema["properties"].keys() - {"said_by"}


def test_each_cause_and_each_failure_is_on_the_page_of_the_contract() -> None:
    schema = json.loads((ROOT / "contracts/schemas/events/dead_letter.v1.json").read_text())
    kinds = {
        part["properties"]["kind"]["const"]
        for part in schema["$defs"].values()
        if "kind" in part.get("properties", {})
    }

    assert len(kinds) > 30
    assert kinds - words_of(CONTRACT) == set()


def test_readers_of_retries_are_warned_of_null_values() -> None:
    (line,) = [line for line in CONTRACT.splitlines() if line.startswith("`retry_request` (topic")]

    assert "a null value ends it" in line


def test_what_a_forged_forwarding_header_can_do_is_said_as_in_the_guarantees() -> None:
    (line,) = [line for line in CONTRACT.splitlines() if line.startswith("| `answerbus_forwarded`")]

    assert "`misrouted_twice`" in line
