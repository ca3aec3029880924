"""A client's connection to a FakeBus."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Self

from answerbus.client.bus import Bus
from answerbus.client.connection import BusConnection, published_record, request_record
from answerbus.client.controls import PublishedControl
from answerbus.client.errors import NoAnswerYet
from answerbus.client.follow import Followed, step_event_of
from answerbus.client.follow_up import is_follow_up
from answerbus.client.outcome_reader import outcome_for
from answerbus.client.positions import FOLLOWED_TOPICS, offsets_of, position_of
from answerbus.client.progress import ProgressCallback, Published
from answerbus.client.published_record import PublishedRecord, ends_request
from answerbus.client.testing.errors import FakeClientError
from answerbus.client.testing.fake_bus import PARTITION, FakeBus
from answerbus.client.workflow_outcomes import Wanted, WorkflowOutcomes
from answerbus.control import UNPROVED, Approval, Cancel, ControlApplied, Input
from answerbus.envelope import decode
from answerbus.event import AnyOutcome
from answerbus.explain import failure_text
from answerbus.request import Request
from answerbus.request_key import RequestKey
from answerbus.topics import STEPS
from answerbus.trace import Trace


class FakeConnection(BusConnection):
    """Open from the start, and until its `async with` ends; nothing waits."""

    def __init__(self, bus: Bus, fake: FakeBus) -> None:
        super().__init__(bus)
        self._fake = fake
        self._is_open = True

    async def __aenter__(self) -> Self:
        self._is_open = True
        return self

    async def __aexit__(self, *raised: object) -> None:
        self._is_open = False

    async def publish(self, request: Request, trace: Trace | None = None) -> Published:
        """See `Client.publish`."""
        self._check_open()
        await asyncio.sleep(0)
        return self._fake.take(request_record(request, trace)).published

    async def ask(
        self,
        request: Request,
        timeout_s: float | None,
        trace: Trace | None = None,
        on_progress: ProgressCallback | None = None,
    ) -> AnyOutcome:
        """See BusConnection; raises FakeClientError where nothing was prepared."""
        self._check_open()
        await asyncio.sleep(0)
        taken = self._fake.take(request_record(request, trace))
        if on_progress is not None:
            on_progress(taken.published)
        is_copy = is_follow_up(request.request_id)  # maybe in other words of its validator
        if taken.outcome is not None and (ends_request(taken.outcome) or not is_copy):
            return taken.outcome
        if (outcome := self._outcome_of(RequestKey.of(request))) is not None:
            return outcome  # it was asked before
        if not taken.is_prepared:
            raise FakeClientError(_unprepared(request))
        raise NoAnswerYet(request.request_id, request.workflow_id, timeout_s)

    async def find(
        self,
        request_id: str,
        workflow_id: str,
        timeout_s: float | None,
        request: Request | None = None,
    ) -> AnyOutcome:
        """See BusConnection."""
        self._check_open()
        await asyncio.sleep(0)
        key = RequestKey(workflow_id, request_id)
        outcome = self._outcome_of(key, published_record(request))
        if outcome is None:
            raise NoAnswerYet(request_id, workflow_id, timeout_s)
        return outcome

    async def follow(
        self,
        request_id: str,
        workflow_id: str,
        after: str | None,
        since: datetime | None,  # noqa: ARG002 - all that there is has the same time
        request: Request | None,
    ) -> AsyncIterator[Followed]:
        """See BusConnection."""
        self._check_open()
        await asyncio.sleep(0)
        records, run = self._fake.outcomes, RequestKey(workflow_id, request_id)
        begin = 0 if after is None else offsets_of(after)[STEPS.name, PARTITION]
        for record in records[begin:]:
            if (event := step_event_of(record, run)) is not None:
                yield Followed(event, _position(record.offset + 1))
        outcome = self._outcome_of(run, published_record(request))
        if outcome is None:
            raise NoAnswerYet(request_id, workflow_id, None)
        yield Followed(outcome, _position(len(records)))

    @asynccontextmanager
    async def outcomes_of(
        self,
        wanted: Wanted,
        *,
        is_new: bool,  # noqa: ARG002 - all that there is is looked through at once
    ) -> AsyncIterator[WorkflowOutcomes]:
        """See BusConnection."""
        self._check_open()
        yield FakeOutcomes(wanted.workflow_id, self._outcome_of)

    async def position(self, workflow_id: str) -> str:  # noqa: ARG002 - all are in one partition
        """See BusConnection."""
        self._check_open()
        await asyncio.sleep(0)
        return _position(len(self._fake.outcomes))

    @property
    def principal(self) -> str:
        """See BusConnection."""
        return f"{UNPROVED}fake"

    async def control(self, control: Approval | Input | Cancel) -> PublishedControl:
        """See BusConnection; a test says by `deliver_step` what comes of it."""
        self._check_open()
        await asyncio.sleep(0)
        self._fake.controls.append(control)
        return PublishedControl(control, PARTITION, len(self._fake.controls) - 1, self._fake.now)

    async def effect_of(
        self,
        published: PublishedControl,
        timeout_s: float | None,  # noqa: ARG002 - nothing waits
    ) -> ControlApplied | None:
        """See BusConnection."""
        self._check_open()
        await asyncio.sleep(0)
        for record in self._fake.outcomes:
            event = decode(record.value, record.headers)
            if isinstance(event, ControlApplied) and event.control == published.control:
                return event
        return None

    def _outcome_of(
        self, request: RequestKey, own: PublishedRecord | None = None
    ) -> AnyOutcome | None:
        found = (outcome_for(record, request, own) for record in self._fake.outcomes)
        return next((outcome for outcome in found if outcome is not None), None)

    def _check_open(self) -> None:
        if not self._is_open:
            raise RuntimeError("A Client is used inside of `async with Client(...) as client:`.")


class FakeOutcomes(WorkflowOutcomes):
    """Nothing waits: a published request has its outcome at once, or the test lacks one."""

    def __init__(
        self, workflow_id: str, outcome_of: Callable[[RequestKey], AnyOutcome | None]
    ) -> None:
        super().__init__()
        self._workflow_id, self._outcome_of = workflow_id, outcome_of

    def taken(self, request_id: str) -> AnyOutcome | None:
        """See WorkflowOutcomes."""
        return self._outcome_of(RequestKey(self._workflow_id, request_id))

    async def wait(self, request_id: str) -> AnyOutcome:
        """See WorkflowOutcomes."""
        if (outcome := self.taken(request_id)) is None:
            raise FakeClientError(
                "The test has prepared no outcome for a row, or for the follow-up of its answer: "
                "see `prepare` and `prepare_by`."
            )
        return outcome


def _position(offset: int) -> str:
    return position_of({(topic.name, PARTITION): offset for topic in FOLLOWED_TOPICS})


def _unprepared(request: Request) -> str:
    if is_follow_up(request.request_id) and request.prior:
        broken = failure_text(request.prior[-1].failure)
        return (
            f"The prepared answer breaks a rule of its type ({broken}), so that the model "
            "is asked again: prepare an outcome for that, too, or the answer as `unvalidated`."
        )
    return (
        "The test has prepared no outcome for a request with the instructions "
        f"{request.context.instructions!r}: call `prepare(answered(…))` before."
    )
