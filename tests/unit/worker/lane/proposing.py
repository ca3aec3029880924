"""Runs that choose among proposals, on virtual time: what each is asked, and what must hold."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from answerbus.call_id import call_name
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import Reply
from tests.unit.worker.builders import answered
from tests.unit.worker.lane.delegating import check_tree
from tests.unit.worker.lane.run_checks import breaks
from tests.unit.worker.lane.run_world import RunProvider, RunStage
from tests.unit.worker.lane.world import done, until

Json = dict[str, Any]
FORM: Json = {
    "type": "object",
    "properties": {"title": {"type": "string"}},
    "required": ["title"],
    "additionalProperties": False,
}
TITLED: Json = {"kind": "inline", "name": "title", "wrapped": False, "json_schema": FORM}
_AMONG = re.compile(r"The proposals are (.*)\.")


def proposed_by(prompt: Prompt) -> list[str]:
    """The ids that a selector is told."""
    found = _AMONG.search(prompt.turns[-1].text) or _AMONG.search(str(prompt.turns))
    assert found, "a selector is told the ids"
    return found[1].split(", ")


def first_of(names: Sequence[str]) -> str:
    return names[0]


def last_of(names: Sequence[str]) -> str:
    return names[-1]


@dataclass
class ProposingProvider(RunProvider):
    """`proposals` by the last part of a child's id; the selector takes what `choose` says."""

    proposals: dict[str, Reply | str | Json] = field(default_factory=dict)
    choose: Callable[[Sequence[str]], str] = last_of
    child_s: float = 0.05
    chosen_among: list[list[str]] = field(default_factory=list)

    async def ask(self, prompt: Prompt, *, timeout_s: float) -> Reply:
        self.prompts.append(prompt)
        reply = self.reply_to(prompt)
        self.script = lambda *_: (self.child_s, reply)
        return await super(RunProvider, self).ask(prompt, timeout_s=timeout_s)

    def reply_to(self, prompt: Prompt) -> Reply:
        _, is_child, call = prompt.request_id.rpartition(".call.")
        if is_child:
            place = call.partition(".")[2]
            reported = self.proposals.get(place, {"title": f"Title {place}"})
            if not isinstance(reported, str | dict):
                return reported
            return answered(reported if isinstance(reported, str) else json.dumps(reported))
        if "element_id" not in prompt.system + str(prompt.wire):
            return answered(json.dumps({"actions": [{"kind": "finish", "args": {"title": "Own"}}]}))
        self.chosen_among.append(names := proposed_by(prompt))
        return answered(json.dumps({"reason": "It is short.", "element_id": self.choose(names)}))


class ProposingStage(RunStage):
    """One agent, `support`, that has its answers proposed."""

    provider: ProposingProvider

    def __init__(self, agent: Json | None = None, **best_of: Any) -> None:
        super().__init__(agent={"best_of": {"n": 3, **best_of}, **(agent or {})})
        self.provider = ProposingProvider()
        self.worker._leave()
        self.worker = self.new_worker()

    def publish(self, *names: str, **more: Any) -> None:
        super().publish(*names, **{"answer_schema": TITLED, "budget": {"attempts": 9}, **more})

    def children(self) -> list[Json]:
        return sorted(super().children(), key=lambda event: str(event["request_id"]))

    def outcome(self, name: str = "r-1") -> Json:
        (found,) = [outcome for outcome in self.outcomes() if outcome["request_id"] == name]
        return found


def check_choice(stage: ProposingStage) -> None:
    """What is answered is what one of the proposals said, and the steps say which and why."""
    check_tree(stage)
    assert breaks(stage) == [], "the audit of operators finds nothing"
    ended = stage.ended()
    chosen = {one["request_id"]: one for one in stage.steps("step") if one.get("chosen")}
    for outcome in stage.outcomes():
        name = outcome["request_id"]
        if outcome.get("parent") or outcome["kind"] != "result":
            assert name not in chosen
        elif outcome["run"]["children"]:
            step = chosen[name]
            reported = ended[call_name(step["chosen"])]
            assert step["chosen"].startswith(f"{name}.call."), "it is one of its own proposals"
            assert reported == {"kind": "ok", "value": outcome["answer"]}
            assert outcome["run"]["steps"] == step["n"] == 2
            assert (step["composed"], step["calls"]) == ("select", [])


async def finished(stage: ProposingStage, limit_s: float = 900.0) -> None:
    await until(lambda: done(stage.broker, stage.names), limit_s)
    await stage.end()
    check_choice(stage)


async def told(stage: ProposingStage, **more: Any) -> Json:
    """The outcome of the run `r-1`."""
    await stage.worker.open()
    stage.publish("r-1", **more)
    await finished(stage)
    return stage.outcome()
