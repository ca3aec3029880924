"""What the scripted provider is told to do: each request carries its own fate in its id."""

import json
import random
from collections.abc import Iterable
from typing import Any

from answerbus.limits import TOOL_QUESTIONS_MAX
from tests.chaos.audit.steps import CANARY, LEAKED

Json = dict[str, Any]

# A request id is <seed>-<number>.<form>.<plot>: the form names the schema that was asked for, the
# plot has a letter for each attempt, `a` for an answer; later attempts are answered.
PLOT_DEAD_LETTERS = 8
ANSWER = "a"
FAULTS = {
    "t": 22,  # throttled
    "n": 5,  # not reached
    "u": 15,  # 503
    "x": 13,  # truncated
    "i": 18,  # invalid
    "m": 12,  # malformed
    "h": 5,  # hangs
    "r": 4,  # refused by the provider
    "d": 3,  # declined by the model
    "j": 3,  # rejected
}
FAULT_SHARE = 0.3  # of all calls
LATENCY = {"median_s": 0.4, "sigma": 0.8, "max_s": 2.0}
TIMEOUT_S = 3.0
# Many, since a throttled call makes all of its profile wait for a moment.
PROFILES = tuple(f"profile-{number}" for number in range(8))
HALF = len(PROFILES) // 2  # fall back to those of the other half, which have none


def then_of(profile: str) -> str:
    """Its line in the settings: what changes who is asked, and no outcome."""
    place = PROFILES.index(profile)
    if place >= HALF:
        return ""
    on = ["unhealthy", "throttled > 0.5s"]
    return f'then = [{{profile = "{PROFILES[place + HALF]}", on = {json.dumps(on)}}}]\n'


CONTRACT, WRAPPED, BARE, TEXT, RUN = "pwbtg"
FORMS_OF_ONE_CALL = (CONTRACT, WRAPPED, BARE, TEXT)
STEPS = 4  # of a run, before its answer
INLINE_SCHEMA: Json = {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 0}, "word": {"enum": ["yes", "no"]}},
    "required": ["n", "word"],
    "additionalProperties": False,
}
AGENT = "doer"
TOOLSET = "deeds"
PAIR = ("often", "once")
ASKED = ("often", "asked")
ASKING = "7"  # the last digit of the numbers of runs that call what a person must approve
DENIED_STEP = STEPS - 1  # in which the policy of the agent denies what may run once
_DENIED = (
    '{required = ["args"], properties = {args = '
    f'{{required = ["step"], properties = {{step = {{const = {DENIED_STEP}}}}}}}}}}}'
)
_USAGE = {"input_tokens": 40, "output_tokens": 12}
_DEP_BUMP: Json = {
    "kind": "dep_bump",
    "manifest_path": "package.json",
    "package": "lodash",
    "target_version": "4.17.21",
    "rationale": "a fixed release exists",
}
_REFUSE: Json = {
    "kind": "refuse",
    "reason": "out_of_scope",
    "detail": "no release fixes it",
    "rationale": "the advisory says so",
}
_OUTPUT: Json = {"n": 7, "word": "yes"}
_WRAPPED: Json = {"output": _OUTPUT, "success": True, "notes": [], "failure_reason": None}


def plot(chance: random.Random) -> str:
    """What becomes of each attempt of a request."""
    dead_letters, weights = list(FAULTS), list(FAULTS.values())
    return "".join(
        chance.choices(dead_letters, weights)[0] if chance.random() < FAULT_SHARE else ANSWER
        for _ in range(PLOT_DEAD_LETTERS)
    )


def is_good(request_id: str) -> bool:
    """Whether one call, which is answered, is all that it takes; a run takes five and its tools."""
    _, form, fate = request_id.split(".")
    return form in FORMS_OF_ONE_CALL and set(fate) == {ANSWER}


def rules(seed: int, costly: Iterable[tuple[str, str]] = ()) -> list[Json]:
    """The rules of the script that plays every plot; mishaps first, then what each form expects.

    `costly` are answers beside the usual ones, by their form.
    """
    faults = [
        _rule(seed, f"*.?.{'?' * (number - 1)}{dead_letter}*", reply, number)
        for number in range(1, PLOT_DEAD_LETTERS + 1)
        for dead_letter, reply in _faults().items()
    ]
    declined = [
        _rule(seed, f"*.{CONTRACT}.{'?' * (number - 1)}d*", _answered(_REFUSE), number)
        for number in range(1, PLOT_DEAD_LETTERS + 1)
    ]
    forms: Json = {CONTRACT: _DEP_BUMP, WRAPPED: _WRAPPED, BARE: _OUTPUT}
    answers = [_rule(seed, f"*.{form}.*", _answered(value)) for form, value in forms.items()]
    text = {"kind": "answered", "content": "a few words", "usage": _USAGE}
    dear = [
        _rule(seed, f"*.{form}.*", {"kind": "answered", "content": content, "usage": _USAGE})
        for form, content in costly
    ]
    own = [*_wrong_in_runs(seed), *faults, *_steps(seed)]
    return [*own, *declined, *answers, *dear, _rule(seed, f"*.{TEXT}.*", text)]


def agent_toml(*, asks_on: bool = False) -> str:
    """The agent of all runs, for the workers' settings; with as many questions as there may be."""
    tools = json.dumps([f"{TOOLSET}.{tool}" for tool in ("often", "once", "asked")])
    policy = f'[agents.{AGENT}.policy."{TOOLSET}.once"]\notherwise = "allow"\ndeny = {_DENIED}\n'
    questions = f"reconcile_max = {TOOL_QUESTIONS_MAX}\n" if asks_on else ""
    head = f'[agents.{AGENT}]\ninstructions = "You do deeds."\ntools = {tools}\n'
    return f"{head}{questions}{policy}"


def _wrong_in_runs(seed: int) -> list[Json]:
    """Before all other rules: a thought that came back, and answers that are no actions."""
    leaked = {"kind": "rejected", "scope": "request", "status": 400, "code": LEAKED}
    plots = [f"*.{RUN}.{'?' * number}i*" for number in range(PLOT_DEAD_LETTERS)]
    invalid = _acting({"kind": "no such action"})
    return [
        _rule(seed, f"*.{RUN}.*", leaked, contains=CANARY.decode()),
        *(_rule(seed, plot, invalid, number) for number, plot in enumerate(plots, start=1)),
    ]


def _steps(seed: int) -> list[Json]:
    """What a run does is told by what is in its prompt: the call that it asked for last."""
    every, asking = f"*.{RUN}.*", f"*{ASKING}.{RUN}.*"
    end = _acting({"kind": "text_response", "content": "All is done."})
    rules = [_rule(seed, every, end, contains=_call_text(STEPS))]
    for number in range(STEPS, 0, -1):
        before = _call_text(number - 1) if number > 1 else None
        if number == STEPS:
            rules.append(_rule(seed, asking, _calling(number, ASKED), contains=before))
        rules.append(_rule(seed, every, _calling(number, PAIR), contains=before))
    return rules


def _calling(step: int, tools: tuple[str, ...]) -> Json:
    names = [f"{TOOLSET}.{tool}" for tool in tools]
    return _acting(*({"kind": "tool_call", "name": n, "args": {"step": step}} for n in names))


def _acting(*actions: Json) -> Json:
    """An answer of actions, with a thought that must not leave the Attempt."""
    return _answered({"actions": [{"kind": "thought", "content": CANARY.decode()}, *actions]})


def _call_text(step: int) -> str:
    """What a call of that step is in a later prompt."""
    return f'"step": {step}}}'


def _faults() -> dict[str, Json]:
    return {
        "t": {"kind": "throttled", "retry_after_s": 0.1},
        "n": {"kind": "unavailable", "status": None, "ran": False},
        "u": {"kind": "unavailable", "status": 503, "ran": True},
        "x": {"kind": "truncated"},
        "i": _answered({"kind": "no such variant"}),
        "m": {"kind": "answered", "content": '{"kind": "dep_bump", "manifest'},
        "h": {"kind": "hang"},
        "r": {"kind": "refused", "reason": "the filter says no", "category": "filter"},
        "j": {"kind": "rejected", "scope": "request", "status": 400, "code": "bad_request"},
    }


def _answered(value: Json) -> Json:
    return {"kind": "answered", "json": value, "usage": _USAGE}


def _rule(
    seed: int,
    request_id: str,
    reply: Json,
    attempt: int | None = None,
    *,
    contains: str | None = None,
) -> Json:
    when: Json = {"request_id": request_id}
    if contains is not None:
        when["contains"] = contains
    if attempt is not None:
        when["attempt"] = attempt
    return {"when": when, "reply": reply, "latency_s": {**LATENCY, "seed": seed}}
