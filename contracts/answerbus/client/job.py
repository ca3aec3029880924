"""A job: one question about many rows, and the outcome of each; without I/O."""

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Generic, cast, overload

from pydantic import BaseModel, JsonValue
from pydantic_core import to_json, to_jsonable_python

from answerbus.budget import Spent
from answerbus.client.answer_type import AnswerT, TypedOutcome
from answerbus.client.ask_options import AskOptions, JobOptions, make_request, refuse_unknown
from answerbus.client.connection import request_record
from answerbus.dead_letter import DeadLetter
from answerbus.html_table import html_table
from answerbus.limits import ATTEMPTS_DEFAULT
from answerbus.outcome import Refusal, Result, UnvalidatedResult
from answerbus.request import Policy, Request, SchemaRef

CONCURRENCY_DEFAULT = 200
CONCURRENCY_MAX = 1_000  # of the 2,000 requests that one account may have under way
ROWS_MAX = 100_000  # the outcome of each takes 1.4 KiB and more until the job is over
SHOWN_MAX = 20  # rows, in a notebook
_DIGEST_BYTES = 15
_LONGEST_ID = f"row-{'a' * (_DIGEST_BYTES * 8 // 5)}.{ROWS_MAX}"  # in the place of a row's own
_BAR_CHARS = 20
_MICROS_PER_USD = 1_000_000
_FINE_MICRO_USD = 100  # below that, four places of a dollar would show nothing

NOTHING = Spent()

Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class RowOutcome(Generic[AnswerT]):
    """A row, by its place from 0 on, and the outcome of its request."""

    number: int
    row: Row
    outcome: "TypedOutcome[AnswerT]"

    def record(self) -> dict[str, Any]:
        """As plain data: the row, `outcome` (its kind), the answer's members, or `why` not."""
        found: dict[str, Any] = {**self.row, "outcome": self.outcome.kind}
        if not isinstance(self.outcome, Result):
            return {**found, "why": str(self.outcome)}
        answer = self.outcome.answer
        value = answer.model_dump() if isinstance(answer, BaseModel) else answer
        if not isinstance(value, dict):
            return {**found, "answer": value}
        return {**found, **{f"answer.{name}": member for name, member in value.items()}}


@dataclass(frozen=True, slots=True)
class KeptOutcome(Generic[AnswerT]):
    """A RowOutcome in a quarter of its memory: the answer as it is, and all else as JSON."""

    number: int
    _row: Row
    _type: "type[TypedOutcome[AnswerT]]"
    _json: str
    _answer: AnswerT | None

    @classmethod
    def of(cls, one: RowOutcome[AnswerT]) -> "KeptOutcome[AnswerT]":
        """Keep it."""
        outcome, answer = one.outcome, None
        if isinstance(outcome, Result):
            outcome, answer = outcome.model_copy(update={"answer": None}), outcome.answer
        return cls(one.number, one.row, type(outcome), outcome.model_dump_json(), answer)

    def read(self) -> RowOutcome[AnswerT]:
        """As it was."""
        outcome = self._type.model_validate_json(self._json)
        if isinstance(outcome, Result):
            outcome = outcome.model_copy(update={"answer": self._answer})
        return RowOutcome(self.number, self._row, outcome)


@dataclass(frozen=True, slots=True)
class JobProgress(Generic[AnswerT]):
    """How far a job is. `spent` is what its account was charged, in earlier runs as well."""

    rows: int
    answered: int = 0
    refused: int = 0
    invalid: int = 0
    dead: int = 0
    spent: Spent = NOTHING
    newest: RowOutcome[AnswerT] | None = None

    @property
    def done(self) -> int:
        """How many rows have their outcome."""
        return self.answered + self.refused + self.invalid + self.dead

    @property
    def micro_usd_at_end(self) -> int:
        """The cost of all rows, if the rest costs as much as those that are done."""
        return self.spent.micro_usd * self.rows // self.done if self.done else 0

    def after(self, newest: RowOutcome[AnswerT]) -> "JobProgress[AnswerT]":
        """The progress with one row more."""
        outcome = newest.outcome
        return JobProgress(
            self.rows,
            self.answered + isinstance(outcome, Result),
            self.refused + isinstance(outcome, Refusal),
            self.invalid + isinstance(outcome, UnvalidatedResult),
            self.dead + isinstance(outcome, DeadLetter),
            _most(self.spent, outcome.account.spent if outcome.account else NOTHING),
            newest,
        )

    def __str__(self) -> str:
        """One line with a bar."""
        filled = _BAR_CHARS * self.done // self.rows if self.rows else _BAR_CHARS
        bar = "#" * filled + "." * (_BAR_CHARS - filled)
        counts = {"refused": self.refused, "invalid": self.invalid, "dead": self.dead}
        other = "".join(f", {count:,} {name}" for name, count in counts.items() if count)
        cost = f"${_usd(self.spent.micro_usd)} so far, about ${_usd(self.micro_usd_at_end)} in all"
        if not self.spent.micro_usd:
            cost = f"{self.spent.tokens:,} tokens so far"
        return f"[{bar}] {self.done:,} of {self.rows:,}: {self.answered:,} answered{other}; {cost}"


@dataclass(frozen=True)
class JobOutcomes(Sequence[RowOutcome[AnswerT]]):
    """The outcome of each row, in the order of the rows; read again each time it is looked at."""

    job_id: str
    progress: JobProgress[AnswerT]
    _all: tuple[KeptOutcome[AnswerT], ...] = field(repr=False)

    @overload
    def __getitem__(self, number: int) -> RowOutcome[AnswerT]: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[RowOutcome[AnswerT]]: ...

    def __getitem__(self, number: int | slice) -> Any:
        if isinstance(number, slice):
            return tuple(kept.read() for kept in self._all[number])
        return self._all[number].read()

    def __len__(self) -> int:
        return len(self._all)

    def records(self) -> list[dict[str, Any]]:
        """Each row as plain data: see RowOutcome.record."""
        return [one.record() for one in self]

    def to_pandas(self) -> Any:
        """A pandas.DataFrame of `records`; pandas must be installed."""
        pandas = import_module("pandas")  # of the caller, who may have none
        return pandas.DataFrame(self.records())

    def __str__(self) -> str:
        """How the job went, on one line."""
        return f"job {self.job_id} {self.progress}"

    def _repr_html_(self) -> str:
        shown = [(str(one.number), str(one.outcome)) for one in self[:SHOWN_MAX]]
        more = len(self._all) - len(shown)
        rest = [("", f"and {more:,} more: to_pandas() has all")] if more else []
        return html_table(str(self), [*shown, *rest])


class JobRequests(Mapping[str, Request]):
    """The requests of a job by their ids, in one workflow, in no order; equal ones have equal ids.

    An id is the digest of what is asked, whatever it may cost, and a number where the same is
    asked again in the job. Rows are kept as JSON: each request is made when it is looked up.
    """

    def __init__(
        self, job_id: str, instructions: str, schema: SchemaRef, facts: Row, asking: JobOptions
    ) -> None:
        refuse_unknown(asking, JobOptions.__optional_keys__)
        policy = asking.get("policy", Policy()).model_copy(update={"ordering": "none"})
        self._options: JobOptions = {**asking, "policy": policy}
        self._asked = job_id, instructions, schema
        self._facts: Row = {name: to_jsonable_python(value) for name, value in facts.items()}
        self._kept: dict[str, bytes] = {}
        self._repeated: dict[str, int] = {}

    def add(self, row: Row) -> None:
        """Raises ValueError for an invalid request, and for more than ROWS_MAX rows."""
        if len(self._kept) == ROWS_MAX:
            raise ValueError(f"a job has at most {ROWS_MAX:,} rows: ask the rest as another job")
        kept = to_json(to_jsonable_python(dict(row)))
        request = self._made(_LONGEST_ID, kept)
        try:
            request_record(request, None)
        except ValueError as error:  # NaN, say: found later, it would end a job that is half paid
            raise ValueError(f"row {len(self._kept)}: {error}") from None
        name = _name(request.model_dump(mode="json", exclude={"request_id", "budget"}))
        request_id = f"row-{name}"
        if request_id in self._kept:
            self._repeated[name] = self._repeated.get(name, 1) + 1
            request_id += f".{self._repeated[name]}"
        self._kept[request_id] = kept

    def _made(self, request_id: str, kept: bytes) -> Request:
        job_id, instructions, schema = self._asked
        facts = {**self._facts, **json.loads(kept)}
        options = cast("AskOptions", {**self._options, "facts": facts})
        request = make_request(instructions, job_id, schema, request_id, options)
        if not request.names_budget or "attempts" in request.budget.model_fields_set:
            return request
        attempts = ATTEMPTS_DEFAULT * max(len(self._kept), 1)  # as many as rows have without one
        budget = request.budget.model_copy(update={"attempts": attempts})
        return request.model_copy(update={"budget": budget})

    def __getitem__(self, request_id: str) -> Request:
        return self._made(request_id, self._kept[request_id])

    def __contains__(self, request_id: object) -> bool:
        return request_id in self._kept

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)


def _name(body: dict[str, JsonValue]) -> str:
    digest = hashlib.sha256(to_json(to_jsonable_python(body))).digest()[:_DIGEST_BYTES]
    return base64.b32encode(digest).decode().lower()


def _most(one: Spent, other: Spent) -> Spent:
    """Outcomes come in any order; what was charged only grows."""
    return Spent(
        attempts=max(one.attempts, other.attempts),
        tokens=max(one.tokens, other.tokens),
        micro_usd=max(one.micro_usd, other.micro_usd),
    )


def _usd(micro_usd: int) -> str:
    """With four places, or six where four would show nothing."""
    places = 6 if micro_usd < _FINE_MICRO_USD else 4
    return f"{micro_usd / _MICROS_PER_USD:,.{places}f}"
