"""Fallbacks in runs: each step chooses for itself, and so do the requests that a run asks."""

from dataclasses import replace

import pytest

from answerbus.topics import ATTEMPTS, RESULTS
from services.worker.core.attempt.fallback import Condition, Fallback
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import Reply, Truncated, Unavailable
from services.worker.limits.profile_limiter import ProfileLimiter
from tests.unit.worker.builders import answered
from tests.unit.worker.lane.proposing import ProposingProvider, ProposingStage, check_choice, told
from tests.unit.worker.lane.run_checks import breaks, finished
from tests.unit.worker.lane.run_world import TWO_STEPS, RunProvider, RunStage
from tests.unit.worker.lane.virtual import on_virtual_time
from tests.unit.worker.lane.world import FakeProvider, events

pytestmark = pytest.mark.wide

NO_CONNECTION = Unavailable(None, ran=False)


def add_large(stage: RunStage, large: FakeProvider, *on: Condition) -> None:
    large.calls = stage.provider.calls  # one journal
    backends = stage.worker.context.planner.backends
    assert isinstance(backends, dict)
    known = backends["default"]
    facts = replace(known.facts, fallbacks=(Fallback("large", on),))
    backends["default"] = replace(known, facts=facts)
    large_facts = replace(known.facts, name="large", model="l")
    backends["large"] = replace(
        known, facts=large_facts, provider=large, limiter=ProfileLimiter(100)
    )


def asked(stage: RunStage) -> list[str]:
    return [one["model"]["profile"] for one in events(stage.broker, ATTEMPTS)]


class FailsAt(RunProvider):
    """In one step, each time."""

    step = 1
    failure: Reply = NO_CONNECTION

    async def ask(self, prompt: Prompt, *, timeout_s: float) -> Reply:
        number = sum(turn.role == "assistant" for turn in prompt.turns)
        self.reply = self.failure if number == self.step else None
        return await super().ask(prompt, timeout_s=timeout_s)


class AwayProvider(ProposingProvider):
    def reply_to(self, prompt: Prompt) -> Reply:
        return NO_CONNECTION


@pytest.mark.parametrize(
    ("failure", "condition", "profiles"),
    [
        (NO_CONNECTION, Condition("unhealthy"), ["default", "default", "large", "large"]),
        # Failures count within a step: the next one is the small model's again.
        (
            Truncated(100, answered().facts),
            Condition("truncated"),
            ["default", "default", "large", "default"],
        ),
    ],
)
@on_virtual_time
async def test_a_step_that_fails_is_another_models_and_the_run_goes_on(
    failure: Reply, condition: Condition, profiles: list[str]
) -> None:
    stage = RunStage()
    stage.provider = small = FailsAt(steps=TWO_STEPS)
    small.failure = failure
    stage.worker._leave()
    stage.worker = stage.new_worker()
    add_large(stage, RunProvider(steps=TWO_STEPS), condition)
    await stage.worker.open()
    stage.publish("r-1")
    await finished(stage)

    (result,) = events(stage.broker, RESULTS)
    assert (result["answer"], asked(stage)) == ("All is well.", profiles)
    assert (result["run"]["steps"], result["run"]["tool_calls"]) == (2, 3)
    assert result["model"].get("because") == (str(condition) if profiles[-1] == "large" else None)
    assert breaks(stage) == [], "the audit of operators finds nothing"


@on_virtual_time
async def test_a_composition_asks_the_fallbacks_of_its_selector_and_proposals_their_own() -> None:
    stage = ProposingStage()
    stage.provider = AwayProvider()
    stage.worker._leave()
    stage.worker = stage.new_worker()
    add_large(stage, ProposingProvider(), Condition("unhealthy"))
    result = await told(stage)

    assert result["answer"] == {"title": "Title 2"}
    assert {one["model"]["profile"] for one in stage.outcomes()} == {"large"}
    assert asked(stage).count("large") == 4
    check_choice(stage)
