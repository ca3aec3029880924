"""The doctor's warning about facts that providers could read from their caches."""

import pytest

from answerbus.request import Context, Fact, Request, TextRef
from services.commands.doctor.findings.facts import Finding
from services.commands.doctor.findings.prompt_caches import REQUESTS_MIN, PromptCaches

HANDBOOK = Fact(name="handbook", value="x" * 5_000)


def seen(number: int, *facts: Fact, instructions: str = "Answer it.") -> Request:
    return Request(
        request_id=f"r-{number}",
        workflow_id=f"order-{number}",
        answer_schema=TextRef(),
        context=Context(instructions=instructions, facts=facts),
    )


def question(number: int) -> Fact:
    return Fact(name="question", value=f"Where is order {number}?")


def findings(requests: list[Request]) -> list[Finding]:
    caches = PromptCaches()
    for request in requests:
        caches.take(request)
    return [*caches.findings()]


def test_a_fact_that_repeats_behind_one_that_differs_is_named() -> None:
    (found,) = findings([seen(n, question(n), HANDBOOK) for n in range(REQUESTS_MIN)])

    assert (found.about, found.verdict) == ("prompt caches", "warning")
    assert found.said == (
        "in 20 recent requests to profile default, the fact `handbook` of 5,000 characters is the "
        "same in 100%, and stands behind fact `question`, which differs: send what repeats first, "
        "or no cache of the provider is hit"
    )


def test_instructions_that_differ_are_in_front_of_all_facts() -> None:
    requests = [seen(n, HANDBOOK, instructions=f"Order {n}?") for n in range(REQUESTS_MIN)]

    (found,) = findings(requests)

    assert "stands behind instructions, which differs" in found.said


@pytest.mark.parametrize(
    "requests",
    [
        [seen(n, HANDBOOK, question(n)) for n in range(REQUESTS_MIN)],
        [seen(n, question(n), HANDBOOK) for n in range(REQUESTS_MIN - 1)],
        [seen(n, question(n), Fact(name="handbook", value="short")) for n in range(REQUESTS_MIN)],
        [seen(n, question(n), Fact(name="log", value=f"{n}" * 5_000)) for n in range(REQUESTS_MIN)],
        [],
    ],
    ids=["repeats first", "too few", "too short for a cache", "nothing repeats", "none"],
)
def test_all_else_is_no_finding(requests: list[Request]) -> None:
    assert findings(requests) == []
