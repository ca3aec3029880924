"""What keeps the promises of runs, broken on purpose: patches of the running test alone."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import ModuleType
from typing import Any
from unittest import mock

from answerbus.private.ledger import AccountRecord
from answerbus.private.runs import AskedCall
from answerbus.registry import Registry
from answerbus.topics import RUNS, TOPIC_OF_KIND, toolset_of
from services.worker.adapters.kafka.shard import KafkaShard
from services.worker.core.budget import ledger
from services.worker.core.budget.account import Account, restored
from services.worker.core.request.lane_request import LaneRequest
from services.worker.core.run import (
    asked_calls,
    continuing,
    edited_args,
    reconciling,
    repeats,
    transitions,
)
from services.worker.core.run.call_changes import Change
from services.worker.core.run.run import ASK_PERSON, Run, ToolCall
from services.worker.dialects.schema_cache import SchemaCache
from services.worker.lane.state import open_runs, signals
from services.worker.lane.state.lane_state import LaneState
from services.worker.ports.kafka import OutRecord
from tests.mutations.mutations import Mutation, _without
from tests.simulation.agents import setting
from tests.simulation.producer import SimProducer


def _calls_before_the_step() -> AbstractContextManager[object]:
    """Calls go out by themselves, and are there also where the step's transaction fails."""
    commit = KafkaShard.commit

    async def mutated(self: KafkaShard, records: Sequence[OutRecord], offset: int | None) -> None:
        calls = [record for record in records if toolset_of(record.topic)]
        plain = SimProducer(**self._names.options)
        await plain.start()
        for call in calls:
            topic = self._names.topic(call.topic)
            await (await plain.send(topic, call.value, call.key, None, call.headers))
        await plain.stop()
        await commit(self, [record for record in records if record not in calls], offset)

    return mock.patch.object(KafkaShard, "commit", mutated)


def _position_alone() -> AbstractContextManager[object]:
    """The position behind results is written, and what they change goes with the next write."""
    apply_signals, kept = signals.apply_signals, dict[int, tuple[Any, ...]]()

    def mutated(lane_state: LaneState, read: Any, now: Any) -> Any:
        written = apply_signals(lane_state, read, now)
        before = kept.pop(id(lane_state), ())
        kept[id(lane_state)] = written.records[:-1]
        return written._replace(records=(*before, written.records[-1]))

    return mock.patch("services.worker.lane.lane.apply_signals", mutated)


def _approval_of_anything() -> AbstractContextManager[object]:
    came = transitions.on_approval

    def mutated(run: Run, approval: Any, inputs: Any) -> transitions.Said:
        call = run.open_call(approval.call_id)
        digest = call.args_digest if call else approval.args_digest
        name = "args_digest" if approval.args is None else "asked_digest"
        return came(run, approval.model_copy(update={name: digest}), inputs)

    return mock.patch.object(transitions, "on_approval", mutated)


def _delivered_again() -> AbstractContextManager[object]:
    def mutated(run: Run, call: ToolCall, inputs: Any) -> Change:
        return transitions._call(run, call, inputs)

    return mock.patch.object(transitions, "_overdue", mutated)


def _repeated_without_a_finding() -> AbstractContextManager[object]:
    """A server that says nothing of a call is taken for one that says it did not happen."""

    def mutated(run: Run, call: ToolCall, inputs: Any) -> Change:
        return reconciling.repeat(run, call, inputs, ran="no")

    return mock.patch.object(reconciling, "find_out", mutated)


def _any_finding_counts() -> AbstractContextManager[object]:
    """Also one under a token that no question had."""
    came = reconciling.on_reconciled

    def mutated(run: Run, said: Any, inputs: Any) -> Change | None:
        call = run.open_call(said.call_id)
        state = call.reconciliation if call else None
        with mock.patch.object(reconciling, "text_digest", return_value=state and state.token):
            return came(run, said, inputs)

    return mock.patch.object(reconciling, "on_reconciled", mutated)


def _answers_nothing() -> AbstractContextManager[object]:
    return mock.patch.object(repeats, "_answers_equal_ones", return_value=False)


def _asks_people_again() -> AbstractContextManager[object]:
    answers = repeats._answers_equal_ones

    def mutated(run: Run, call: ToolCall) -> bool:
        return call.asked.tool != ASK_PERSON and answers(run, call)

    return mock.patch.object(repeats, "_answers_equal_ones", mutated)


def _states_are_forgotten() -> AbstractContextManager[object]:
    """The call is made again from its beginning."""
    return mock.patch.object(continuing, "kept", return_value={"deliveries": 0})


def _answers_are_delivered_again() -> AbstractContextManager[object]:
    def mutated(call: ToolCall) -> bool:
        return call.record is not None and call.record.state is not None

    return mock.patch.object(continuing, "is_continued", mutated)


def _any_answer_fits(module: ModuleType) -> AbstractContextManager[object]:
    return mock.patch.object(module, "problems_of_answer", return_value=())


def _cancels_are_not_kept() -> AbstractContextManager[object]:
    """Those of people; what its run ends is ended."""
    return mock.patch.object(LaneState, "cancel_if_asked")


@contextmanager
def _thoughts_are_remembered() -> Iterator[None]:
    """What is compiled meanwhile is not kept for other histories."""
    with (
        mock.patch("services.worker.core.run.step_schema._without_thoughts", lambda answer: answer),
        mock.patch.object(setting, "_SCHEMAS", SchemaCache(Registry())),
    ):
        yield


def _approval_on_any_topic() -> AbstractContextManager[object]:
    """What applications may write approves calls."""
    apply_signals = signals.apply_signals

    def mutated(lane_state: LaneState, read: Any, now: Any) -> Any:
        anywhere = dict.fromkeys(TOPIC_OF_KIND, read[0].topic)
        kinds = mock.patch.object(signals, "TOPIC_OF_KIND", anywhere)
        with kinds:
            return apply_signals(lane_state, read, now)

    return mock.patch("services.worker.lane.lane.apply_signals", mutated)


def _wakes_early() -> AbstractContextManager[object]:
    """A run goes on with the first of its calls that ends."""

    def mutated(self: LaneState, lane_request: LaneRequest) -> None:
        self.queue.signal(lane_request)

    return mock.patch.object(LaneState, "signal_if_answered", mutated)


def _policy_after_publishing() -> AbstractContextManager[object]:
    """The verdict is recorded, and the call is out by then."""
    judged = asked_calls._judged

    def mutated(run: Run, call: AskedCall, *rest: Any) -> AskedCall:
        return call.model_copy(update={"policy": judged(run, call, *rest).policy})

    return mock.patch.object(asked_calls, "_judged", mutated)


def _edited_arguments_are_not_judged() -> AbstractContextManager[object]:
    """What a person writes in the place of a model's arguments is taken as it is."""

    def mutated(*_: Any) -> None:
        return None

    return mock.patch.object(edited_args, "verdict_on", mutated)


def _costs_of_tools_are_forgotten() -> AbstractContextManager[object]:
    """A successor does not know what no attempt has said yet."""

    def mutated(record: AccountRecord) -> Account:
        return restored(record.model_copy(update={"tools_micro_usd": 0}))

    return mock.patch.object(ledger, "restored", mutated)


RUN_MUTATIONS = (
    Mutation("a tool call goes out before its step is settled", _calls_before_the_step, first=153),
    Mutation("the position of results is written outside of their transaction", _position_alone),
    Mutation("an approval counts for other arguments, too", _approval_of_anything, first=13),
    Mutation("an approval counts on any topic of controls", _approval_on_any_topic, first=7),
    Mutation(
        "the private records of a run are not ended with it",
        lambda: _without(lambda record: record.topic is RUNS and record.value is None),
    ),
    Mutation("a tool that runs at most once is called again", _delivered_again, first=7),
    Mutation("a call of unknown fate is delivered again", _repeated_without_a_finding, first=7),
    Mutation("any finding about a call counts", _any_finding_counts, first=7),
    Mutation("a call that succeeded in the step before is made again", _answers_nothing),
    Mutation("a question that was just answered is asked again", _asks_people_again, first=16),
    Mutation("a state that a server kept is forgotten", _states_are_forgotten, first=40),
    Mutation(
        "the answer to a tool that runs at most once is delivered again",
        _answers_are_delivered_again,
        first=178,
    ),
    Mutation(
        "an answer to a model need not fit its schema",
        lambda: _any_answer_fits(transitions),
        first=7,
    ),
    Mutation(
        "an answer to a tool need not fit its schema",
        lambda: _any_answer_fits(continuing),
        first=46,
    ),
    Mutation("a cancellation leaves running what it ends", _cancels_are_not_kept, first=5),
    Mutation(
        "a rejected answer is shown again with its thoughts", _thoughts_are_remembered, first=5
    ),
    Mutation("a run goes on before all its calls have ended", _wakes_early),
    Mutation(
        "what tools cost is forgotten with the worker", _costs_of_tools_are_forgotten, first=12
    ),
    Mutation(
        "the policy judges calls that are published already", _policy_after_publishing, first=7
    ),
    Mutation("arguments that a person changed are not judged", _edited_arguments_are_not_judged),
    Mutation(
        "children begin traces of their own",
        lambda: mock.patch.object(open_runs, "_trace_of", return_value=None),
    ),
)
