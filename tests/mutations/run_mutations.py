"""What keeps the promises of runs, broken on purpose: patches of the running test alone."""

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest import mock

from answerbus.topics import RUNS
from services.worker.core.run import transitions
from services.worker.core.run.run import Run, ToolCall
from services.worker.core.run.transitions import Change
from services.worker.lane.state import hearing
from services.worker.lane.state.lane_state import LaneState
from services.worker.lane.state.open_runs import OpenRuns
from tests.mutations.mutations import Mutation
from tests.unit.worker.lane.fakes import FakeShard


def _calls_before_the_step() -> AbstractContextManager[object]:
    """Calls go out by themselves, and are there also where the step's transaction fails."""
    commit = FakeShard.commit

    async def mutated(self: FakeShard, records: Any, offset: int | None) -> None:
        for record in records:
            if record.topic.name.startswith("tools."):
                self._broker.append(record)
        rest = [record for record in records if not record.topic.name.startswith("tools.")]
        await commit(self, rest, offset)

    return mock.patch.object(FakeShard, "commit", mutated)


def _position_alone() -> AbstractContextManager[object]:
    """The position behind results is written, and what they change goes with the next write."""
    hear, kept = hearing.hear, dict[int, tuple[Any, ...]]()

    def mutated(lane_state: LaneState, heard: Any, now: Any) -> Any:
        written = hear(lane_state, heard, now)
        before = kept.pop(id(lane_state), ())
        kept[id(lane_state)] = written.records[:-1]
        return replace(written, records=(*before, written.records[-1]))

    return mock.patch("services.worker.lane.lane.hear", mutated)


def _approval_of_anything() -> AbstractContextManager[object]:
    came = transitions.approval_came

    def mutated(run: Run, approval: Any, inputs: Any) -> Change | None:
        call = run.open_call(approval.call_id)
        digest = call.asked.args_digest if call else approval.args_digest
        return came(run, approval.model_copy(update={"args_digest": digest}), inputs)

    return mock.patch.object(transitions, "approval_came", mutated)


def _nulls_forgotten() -> AbstractContextManager[object]:
    commit = FakeShard.commit

    async def mutated(self: FakeShard, records: Any, offset: int | None) -> None:
        kept = [r for r in records if r.topic is not RUNS or r.value is not None]
        await commit(self, kept, offset)

    return mock.patch.object(FakeShard, "commit", mutated)


def _delivered_again() -> AbstractContextManager[object]:
    def mutated(run: Run, call: ToolCall, inputs: Any) -> Change:
        return transitions._call(run, call, inputs)

    return mock.patch.object(transitions, "_overdue", mutated)


def _cancels_are_not_kept() -> AbstractContextManager[object]:
    cancel = OpenRuns.cancel

    def mutated(self: OpenRuns, asked: Any, tickets: Any, *more: Any) -> Any:
        written = cancel(self, asked, tickets, *more)
        for ticket in tickets:
            ticket.cancelled = None
        return written

    return mock.patch.object(OpenRuns, "cancel", mutated)


def _thoughts_are_remembered() -> AbstractContextManager[object]:
    return mock.patch(
        "services.worker.core.run.step_schema._without_thoughts", lambda answer: answer
    )


RUN_MUTATIONS = (
    Mutation("a tool call goes out before its step is settled", _calls_before_the_step),
    Mutation("the position of results is written outside of their transaction", _position_alone),
    Mutation("an approval counts for other arguments, too", _approval_of_anything),
    Mutation("the private records of a run are not ended with it", _nulls_forgotten),
    Mutation("a tool that runs at most once is called again", _delivered_again),
    Mutation("a cancellation leaves running what it ends", _cancels_are_not_kept),
    Mutation("a rejected answer is shown again with its thoughts", _thoughts_are_remembered),
)
