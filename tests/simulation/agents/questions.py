"""Questions to people in some histories with runs: those of models, and those of tools.

The servers of tools that ask also keep states, from which they go on with a call.
"""

import random
from collections.abc import Iterator
from typing import Any

from tests.simulation.agents.setting import DelayedReply, Json

QUESTIONS_EVERY = 3  # the other histories are as they would be without questions
ASKS_PERSON = 0.2  # the share of calls by which a model asks a person
ASKS_AGAIN = 0.5  # the share of runs with the same call in each step that ask a person
CALLS_ASKING = 0.6  # the share of the rest to tools that ask
DELEGATES = 0.3  # the share of calls that delegate, of agents that may
EXPIRES = 0.5  # the share of questions that say until when they can be answered
EXPIRES_S = (1, 10, 100)
ANSWER_SCHEMA = {"type": "object", "required": ["s"]}
PROGRESSES = (0, 1, 1, 2, 3)
WORKS_S = (0.0, 0.1, 2.0, 9.0, 12.0)  # until a progress: the call times out after 10 s
KEEPS_STATE = 0.75  # the share of progresses with a state
STATES = 4  # of one call: a server may say one again
ASKS = 0.4  # the share of progresses with a question
ASKS_WITHOUT_STATE = 0.05  # which ends its call, unless a state was kept before


def has_questions(seed: int) -> bool:
    """Whether people are asked in the history of a seed."""
    return seed % QUESTIONS_EVERY == 1


def model_question(chance: random.Random) -> dict[str, Any]:
    """A call by which a model asks a person: equal ones are not rare."""
    return {"kind": "tool_call", "name": "ask_person", "args": _question(chance)}


def progress(chance: random.Random, call_id: str) -> Iterator[DelayedReply]:
    """What a server reports of a call that it begins or goes on with, in any order."""
    after_s = 0.0
    for number in range(chance.choice(PROGRESSES)):
        after_s += chance.choice(WORKS_S)
        event: Json = {"kind": "tool_progress", "n": number}
        roll = chance.random()
        if roll < KEEPS_STATE:
            event["state"] = f"{call_id} state {chance.randrange(STATES)}"
        if roll < ASKS or roll > 1 - ASKS_WITHOUT_STATE:
            event["asks"] = _question(chance)
        yield after_s, event


def _question(chance: random.Random) -> Json:
    asked: Json = {"question": "Where?", "json_schema": ANSWER_SCHEMA}
    if chance.random() < EXPIRES:
        asked["expires_s"] = chance.choice(EXPIRES_S)
    return asked
