"""A recorded workflow as one file, from which its runs are played again without Kafka; pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue, ValidationError

from answerbus import json_text, limits
from answerbus.event import AnyOutcome
from answerbus.fail_fast import JsonReader
from answerbus.private.runs import AgentDefinition
from answerbus.problems import problems_of
from answerbus.redaction import RULES_MAX, RedactionRule
from answerbus.request import Prior, Request
from answerbus.step import Step, ToolEnded
from answerbus.wire import Wire, WorkflowId

VERSION: Final = 1
CASSETTE_BYTES_MAX = 16 * 1024 * 1024
CASSETTE_VALUES_MAX = 500_000
REQUESTS_MAX = 1_000  # of one workflow


class RecordedRequest(Wire):
    """A request and all that came of it; of a run, in the order of its chain.

    `definition` is that of its run, None where it is not known any more.
    """

    request: Request
    definition: AgentDefinition | None = None
    events: Annotated[
        tuple[Annotated[Step | ToolEnded, Field(discriminator="kind")], ...],
        Field(max_length=limits.STEPS_MAX * (limits.STEP_ACTIONS_MAX + 1)),
    ] = ()
    outcome: Annotated[AnyOutcome, Field(discriminator="kind")] | None = None

    @property
    def steps(self) -> Iterator[Step]:
        """The steps of its run; the outcomes of tool calls are events of their own."""
        return (event for event in self.events if isinstance(event, Step))

    @property
    def prior(self) -> tuple[Prior, ...]:
        """The answers that were not accepted, as far as they are known."""
        return self.outcome.prior if self.outcome and self.outcome.kind == "dead_letter" else ()


class Cassette(Wire):
    """The requests of one workflow, in their order; `redactions` were applied to their texts."""

    kind: Literal["cassette"] = "cassette"
    version: Literal[1] = VERSION
    workflow_id: WorkflowId
    redactions: Annotated[tuple[RedactionRule, ...], Field(max_length=RULES_MAX)] = ()
    requests: Annotated[tuple[RecordedRequest, ...], Field(min_length=1, max_length=REQUESTS_MAX)]


@dataclass(frozen=True, slots=True)
class CassetteFault:
    """Why this version cannot play some bytes as a cassette."""

    kind: Literal["too_large", "not_json", "other_version", "not_a_cassette"]
    text: str


_READER: Final = JsonReader.of(Cassette)


def read_cassette(text: bytes) -> Cassette | CassetteFault:
    """The cassette; its size and its values are counted before anything of it is read."""
    if len(text) > CASSETTE_BYTES_MAX:
        return CassetteFault("too_large", f"it has more than {CASSETTE_BYTES_MAX:,} bytes")
    parsed = json_text.parse(text, CASSETTE_VALUES_MAX)
    if isinstance(parsed, json_text.NotJson):
        return CassetteFault("not_json", f"expected {parsed.reason} (byte {parsed.position})")
    version = _version(parsed.value)
    if version != VERSION:
        return CassetteFault(
            "other_version", f"it is of version {version!r}, and this is one for {VERSION}"
        )
    try:
        return _READER.validate_json(text)
    except ValidationError as error:
        problem = problems_of(error, parsed.value)[0]
        return CassetteFault("not_a_cassette", f"at {problem.path or '/'}: {problem.expected}")


def is_cassette(value: JsonValue) -> bool:
    """Whether a JSON file says that it is one, of whichever version."""
    return isinstance(value, dict) and value.get("kind") == "cassette"


def _version(value: JsonValue) -> JsonValue:
    found = value.get("version") if isinstance(value, dict) else None
    return found if isinstance(found, int | str) else VERSION  # then the type says what is missing
