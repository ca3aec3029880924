"""How much two calls have in common from their beginning: what a provider's cache can reuse.

Measured are the bodies as an HTTP server receives them, of prompts as workers build them.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

import pytest
from pydantic import JsonValue

from answerbus import failure
from answerbus.answers.plan_proposal import PLAN_PROPOSAL
from answerbus.failure import Problem
from answerbus.registry import Registry
from answerbus.request import Prior, Request
from services.worker.core.attempt.plan import Plan, ProfileFacts
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.schema.resolved import Unusable
from services.worker.dialects.schema_cache import SchemaCache
from tests.providers.apis import EACH
from tests.providers.calls import LIMIT_S, Api
from tests.providers.misbehaving import misbehaving
from tests.unit.worker.builders import request

SCHEMAS = SchemaCache(Registry())
INSTRUCTIONS = "Propose one plan for the advisory. " * 20
MANUAL: JsonValue = {"name": "manual", "value": "How we upgrade packages. " * 400}
WRONG = failure.Invalid(problems=(Problem.of("/kind", "tag", "one of `refuse`, `dep_bump`"),))
OTHER_PROBLEM = failure.Invalid(problems=(Problem.of("/package", "missing", "a member `package`"),))
FIRST = Prior(attempt=1, failure=WRONG, answer={"kind": "bump"})
SECOND = Prior(attempt=2, failure=OTHER_PROBLEM, answer={"kind": "dep_bump"})
# What comes after the turns in a body: limits, and the ends of what is open.
ENDING_CHARS = 150


def plan_for(api: Api) -> Plan:
    compiled = SCHEMAS.compiled(PLAN_PROPOSAL.ref, api.dialect)
    assert not isinstance(compiled, Unusable)
    facts = ProfileFacts("default", api.name, "m", 4_096, 60.0, None, show_schema=True)
    return Plan(facts, *compiled, prompt_secret=b"of this deployment")


def asked(about: str, *messages: Mapping[str, str]) -> Request:
    return request(
        answer_schema=PLAN_PROPOSAL.ref.model_dump(),
        context={
            "instructions": INSTRUCTIONS,
            "facts": [MANUAL, {"name": "advisory", "value": about}],
            "messages": [dict(message) for message in messages],
        },
    )


async def bodies(api: Api, *prompts: Prompt) -> list[str]:
    """What the server received, as text."""
    async with misbehaving(api.whole) as server, api.at(server.base_url) as provider:
        for prompt in prompts:
            await asyncio.wait_for(provider.ask(prompt, timeout_s=LIMIT_S), LIMIT_S)
    return [seen.body.decode() for seen in server.seen]


def common(one: str, other: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


@EACH
async def test_requests_of_one_contract_begin_alike_up_to_the_first_piece_that_differs(
    api: Api,
) -> None:
    plan = plan_for(api)
    one, other = await bodies(
        api, *(plan.prompt(asked(about), ()) for about in ("lodash is old", "minimist is old"))
    )

    shared = common(one, other)

    assert one[:shared].endswith("<data "), "up to the mark of the first piece that differs"
    assert json.dumps(MANUAL)[30:-5] in one[:shared]
    assert shared > 0.97 * len(one)


@EACH
@pytest.mark.parametrize("prior", [(FIRST,), (FIRST, SECOND)], ids=["second", "third"])
async def test_a_retry_repeats_the_attempt_before_and_adds_to_it(
    api: Api, prior: Sequence[Prior]
) -> None:
    plan = plan_for(api)
    message = {"role": "assistant", "content": "Which manifest?"}
    of = asked("lodash is old", message, {"role": "user", "content": "package.json"})
    before, after = await bodies(api, plan.prompt(of, prior[:-1]), plan.prompt(of, prior))

    shared = common(before, after)

    assert len(before) - shared < ENDING_CHARS
    assert len(after) > len(before)


@EACH
async def test_every_provider_gets_turns_that_alternate(api: Api) -> None:
    """Anthropic and Gemini refuse others; a turn of the assistant's at the end would be gone on."""
    message = {"role": "assistant", "content": "Which manifest?", "trust": "trusted"}
    plan = plan_for(api)
    of = asked("lodash is old", message, message)
    bare = of.model_copy(
        update={"context": of.context.model_copy(update={"facts": (), "messages": ()})}
    )
    no_facts = of.model_copy(update={"context": of.context.model_copy(update={"facts": ()})})

    for sent in await bodies(
        api,
        *(
            plan.prompt(each, (FIRST, SECOND)[:n])
            for each in (of, bare, no_facts)
            for n in range(3)
        ),
    ):
        roles = roles_in(json.loads(sent))
        assert roles == (["user", "assistant"] * len(roles))[: len(roles)]
        assert len(roles) % 2 == 1


def roles_in(body: dict[str, Any]) -> list[str]:
    turns = next(body[name] for name in ("messages", "input", "contents") if name in body)
    roles = [turn["role"] for turn in turns]
    return ["assistant" if role == "model" else role for role in roles if role != "system"]
