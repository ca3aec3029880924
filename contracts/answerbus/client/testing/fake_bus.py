"""Requests and outcomes in memory, with the checks that workers make before any model call."""

import base64
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from aiokafka import ConsumerRecord
from pydantic import JsonValue

from answerbus.budget import AccountState, Budget, Spent
from answerbus.client.outcome_reader import outcome_in
from answerbus.client.progress import Published
from answerbus.client.testing.errors import FakeClientError
from answerbus.client.testing.replies import Asked, Reply, dead_letter
from answerbus.contract import Contract
from answerbus.control import Approval, Cancel, Input
from answerbus.dead_letter import (
    BudgetExhausted,
    ConflictingId,
    DeadLetter,
    Raw,
    UnknownAgent,
    UnknownProfile,
    UnknownSchema,
)
from answerbus.envelope import Encoded, ReceivedRequest, decode_request, encode
from answerbus.event import AnyOutcome
from answerbus.limits import RAW_BYTES_MAX, RUN_ATTEMPTS_DEFAULT
from answerbus.outcome import Origin, Refusal, Result, UnvalidatedResult
from answerbus.registry import Registry
from answerbus.request import ContractRef, Request
from answerbus.request_key import RequestKey
from answerbus.topics import REQUESTS, TOPIC_OF_KIND
from answerbus.wire import bytes_digest

PARTITION = 0


@dataclass(frozen=True)
class AdmittedRequest:
    """Where a request is, and its outcome if it had one."""

    published: Published
    outcome: AnyOutcome | None
    is_prepared: bool


@dataclass
class FakeBus:
    """What is in the topics; of `profiles` and `agents` workers know these, None for any."""

    registry: Registry
    prefix: str
    profiles: Collection[str] | None
    now: datetime
    agents: Collection[str] | None = None
    requests: list[Request] = field(default_factory=list)
    prepared: deque[Reply] = field(default_factory=deque)
    prepared_by: Callable[[Request], Reply] | None = None
    outcomes: list[ConsumerRecord] = field(default_factory=list)
    controls: list[Approval | Input | Cancel] = field(default_factory=list)
    done: dict[str, int] = field(default_factory=dict)  # by group: outcomes that are done with
    _bodies: dict[RequestKey, JsonValue] = field(default_factory=dict)
    _accounts: dict[str, AccountState] = field(default_factory=dict)
    _settled: set[str] = field(default_factory=set)  # accounts whose limit a request has named

    def take(self, record: Encoded, reply: Reply | None = None) -> AdmittedRequest:
        """Publish a record of a request, and let it end as `reply` or as the test has prepared."""
        received = decode_request(record.value, record.headers)
        if not isinstance(received, ReceivedRequest):
            raise FakeClientError(f"Workers cannot read this request: {received.problems}")
        request = received.request
        account = self._account(request)
        published = Published(request.request_id, PARTITION, len(self.requests))
        chosen = self._known(received, record) or self._ended_early(request, account)
        chosen = chosen or reply or self._prepared_for(request)
        asked = Asked(request, self._origin(published), self._contract(request), account, self.now)
        outcome = chosen(asked) if chosen else None
        self.requests.append(request)
        self._accounts[account.id] = account
        self._bodies.setdefault(RequestKey.of(request), received.body)
        if outcome is not None:
            outcome = self._end(outcome, RequestKey.of(request))
        return AdmittedRequest(published, outcome, is_prepared=chosen is not None)

    def put(self, topic: str, value: bytes | None, headers: list[tuple[str, bytes]]) -> None:
        """Append a record to a topic of outcomes or steps."""
        size, moment = len(value or b""), int(self.now.timestamp() * 1000)
        at, offset = (topic, PARTITION), len(self.outcomes)
        record = ConsumerRecord(*at, offset, moment, 0, None, value, None, 0, size, tuple(headers))
        self.outcomes.append(record)

    def _account(self, request: Request) -> AccountState:
        """The first request that names a budget settles the limit; others add their attempts."""
        name, own = request.account_id, _budget(request)
        account = self._accounts.get(name)
        if name in self._settled or (account and RequestKey.of(request) in self._bodies):
            return self._accounts[name]
        if request.names_budget:
            self._settled.add(name)
            most = max(own.attempts, account.spent.attempts if account else 0)
            limit = own.model_copy(update={"attempts": most})
        elif account is None:
            limit = own
        else:
            added = 0 if request.prior or request.parent else own.attempts
            limit = account.limit.model_copy(update={"attempts": account.limit.attempts + added})
        return AccountState(id=name, limit=limit, spent=account.spent if account else Spent())

    def _known(self, received: ReceivedRequest, record: Encoded) -> Reply | None:
        """A copy of a request that is known is dropped; another body under its id is a conflict."""
        known = self._bodies.get(RequestKey.of(received.request))
        if known is None:
            return None
        return _nothing if known == received.body else _conflict(record)

    def _ended_early(self, request: Request, account: AccountState) -> Reply | None:
        """The outcome of a request that workers end without a call; None for others."""
        if isinstance(request.answer_schema, ContractRef) and self._contract(request) is None:
            return dead_letter(UnknownSchema())
        if self.profiles is not None and request.profile not in self.profiles:
            return dead_letter(UnknownProfile())
        if request.agent and self.agents is not None and request.agent.name not in self.agents:
            return dead_letter(UnknownAgent())
        if account.spent.attempts >= account.limit.attempts:
            return dead_letter(BudgetExhausted(which="attempts"))
        return None

    def _prepared_for(self, request: Request) -> Reply | None:
        if self.prepared:
            return self.prepared.popleft()
        return self.prepared_by(request) if self.prepared_by else None

    def _contract(self, request: Request) -> Contract[Any] | None:
        schema = request.answer_schema
        return self.registry.find(schema) if isinstance(schema, ContractRef) else None

    def _origin(self, published: Published) -> Origin:
        return Origin(
            topic=REQUESTS.full_name(self.prefix),
            partition=published.partition,
            offset=published.offset,
            timestamp=self.now,
        )

    def _end(self, outcome: AnyOutcome, asked: RequestKey) -> AnyOutcome:
        """Publish it; gives it as a reader of the record has it."""
        record = encode(outcome)
        self.put(TOPIC_OF_KIND[outcome.kind].full_name(self.prefix), record.value, record.headers)
        if isinstance(outcome, Result | UnvalidatedResult | Refusal):
            self._accounts[outcome.account.id] = outcome.account
        found = outcome_in(self.outcomes[-1], {asked})
        if found is None:
            raise FakeClientError(f"The prepared outcome is not one of its request: {outcome!r}")
        return found


def _budget(request: Request) -> Budget:
    """That of the request; a run without one has its agent's, here the default of agents."""
    if request.agent is None or request.names_budget:
        return request.budget
    return Budget(attempts=RUN_ATTEMPTS_DEFAULT)


def _nothing(_: Asked) -> None:
    """How a copy ends."""


def _conflict(record: Encoded) -> Reply:
    """A dead letter about the record itself, which does not end the request of that id."""

    def reply(asked: Asked) -> DeadLetter:
        origin = asked.origin
        return DeadLetter(
            dead_letter_id=f"{origin.topic}-{origin.partition}-{origin.offset}.dead-letter",
            request_id=asked.request.request_id,
            workflow_id=asked.request.workflow_id,
            cause=ConflictingId(),
            request=None,
            raw=Raw(
                base64=base64.b64encode(record.value[:RAW_BYTES_MAX]).decode(),
                bytes=len(record.value),
                digest=bytes_digest(record.value),
                truncated=len(record.value) > RAW_BYTES_MAX,
            ),
            origin=origin,
            account=None,
            at=asked.now,
        )

    return reply
