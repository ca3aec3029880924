"""The requests of the demo: the files in `requests/`, byte for byte, and one of them twice."""

from dataclasses import dataclass
from pathlib import Path

from answerbus.envelope import ReceivedRequest, decode_request
from answerbus.schema_name import schema_name

REQUESTS = Path(__file__).parent / "requests"
SENT_TWICE = "dep-bump"


@dataclass(frozen=True)
class Case:
    """One record to publish; the ids are None where they cannot be read."""

    name: str
    value: bytes
    request_id: str | None
    workflow_id: str | None
    asked: str
    is_duplicate: bool = False


def cases() -> list[Case]:
    """In the order of publication."""
    found = [_case(path.stem.partition("-")[2], path.read_bytes()) for path in _files()]
    twice = next(case for case in found if case.name == SENT_TWICE)
    again = f"{twice.name}, again"
    return [*found, _case(again, twice.value, is_duplicate=True)]


def _files() -> list[Path]:
    return sorted(REQUESTS.glob("*.json"))


def _case(name: str, value: bytes, *, is_duplicate: bool = False) -> Case:
    read = decode_request(value)
    if isinstance(read, ReceivedRequest):
        request = read.request
        asked = schema_name(request.answer_schema).label
        if request.agent is not None:
            asked = f"{asked}, {request.agent.name}"
        return Case(name, value, request.request_id, request.workflow_id, asked, is_duplicate)
    return Case(name, value, read.request_id, read.workflow_id, "-", is_duplicate)
