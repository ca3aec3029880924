"""`answerbus record`: writes a workflow into a file that is played again without Kafka."""

import asyncio
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from pydantic import TypeAdapter, ValidationError

from answerbus.cassette import Cassette, CassetteFault, read_cassette
from answerbus.client.bus import Bus
from answerbus.envelope import Undecodable
from answerbus.private.runs import AgentDefinition
from answerbus.problems import pointer, problems_of
from answerbus.redaction import RedactionRule
from answerbus.topics import OUTCOMES, REQUESTS, RUNS, STEPS
from services.command_line import Config, bus_of, refuse, stderr, stdout
from services.commands.private_records import hidden_runs
from services.commands.replay.loading import loaded_once, report_unavailable_ids
from services.operators.adapters.reader import reading
from services.operators.records.decoded import decoded
from services.operators.records.stored import RetryEnded, Stored
from services.operators.runs.recording import Recording, unredacted
from services.operators.timeline.timeline import may_concern
from services.settings import plugins
from services.settings.settings import Settings, from_environment
from services.text.counted import count_text
from services.text.escaping import plain_line
from services.worker.planning.recorded_exchanges import Unplayable, exchanges_of

EXIT_UNKNOWN = 1
_NOT_IN_NAMES = re.compile(r"\W+")
_RULE = TypeAdapter[str](RedactionRule)

Workflow = Annotated[str | None, typer.Option("--workflow", metavar="ID", help="This workflow.")]
Letter = Annotated[
    str | None,
    typer.Option("--dead-letter", metavar="ID", help="The request of this dead letter."),
]
Out = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="Default: by the id, such as r-1.json.")
]
Redact = Annotated[
    list[str] | None,
    typer.Option(
        "--redact",
        metavar="RULE",
        help="Leave out `emails`, `digits` (six or more), or texts of `member:NAME`; repeatable. "
        "Definitions of agents and schemas stay as they are.",
    ),
]
AsTest = Annotated[
    Path | None,
    typer.Option(
        "--test", metavar="FILE", help="Also a pytest, which fails until an answer is valid."
    ),
]

_TEST = '''"""A recorded request as a test; written by `answerbus record`."""

from pathlib import Path

from answerbus.client.testing import accepted_answer

CASSETTE = Path(__file__).with_name({cassette!r})


def test_{name}_has_an_answer() -> None:
    """Passes once a recorded answer is valid.

    It is read by the contract or the schema of the recorded request. Of a class of your own give
    the one that your service has now, as `response_model=`.
    """
    accepted_answer(CASSETTE, request_id={request_id!r})
'''


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What is to be recorded; without `request_id` the whole workflow."""

    workflow_id: str
    request_id: str | None = None


def record(
    *,
    workflow: Workflow = None,
    dead_letter: Letter = None,
    out: Out = None,
    redact: Redact = None,
    test: AsTest = None,
    config: Config = None,
) -> None:
    """Record a workflow, or a dead letter as a test, to be played again without Kafka.

    Exit code 1: none of its requests is kept, or there is no right to read the steps of its
    runs. Ids, names, digests, definitions of agents and schemas are never redacted.
    `answerbus play` and tests read the file.
    """
    if (workflow is None) == (dead_letter is None):
        raise typer.BadParameter("either --workflow or --dead-letter")
    rules = tuple(map(_rule, redact or ()))
    settings = from_environment(config)
    bus = bus_of(settings.kafka)
    wanted, cassette = asyncio.run(_recorded(bus, settings, workflow, dead_letter, rules))
    if cassette is None:
        stderr().print(plain_line(f"No request of {wanted.workflow_id} is kept."), markup=False)
        raise typer.Exit(EXIT_UNKNOWN)
    text = cassette.model_dump_json(indent=1)
    if isinstance(fault := read_cassette(text.encode()), CassetteFault):
        stderr().print(plain_line(f"It would be no cassette: {fault.text}."), markup=False)
        raise typer.Exit(EXIT_UNKNOWN)
    path = out or Path(f"{_file_name(wanted.request_id or wanted.workflow_id)}.json")
    if test is not None:
        _check_test(test, path)
    _write_new(path, text)
    count = count_text(len(cassette.requests), "request")
    stdout().print(plain_line(f"{path}: {count}."), markup=False)
    for line in (*unredacted(cassette), *_unplayable(cassette)):
        stderr().print(plain_line(line), markup=False)
    if test is not None:
        _write_test(test, path, wanted.request_id or cassette.requests[0].request.request_id)


def _write_new(path: Path, text: str) -> None:
    """Whole, or not at all. Raises OSError."""
    with path.open("x", encoding="utf-8") as file:
        try:
            file.write(text)
            file.flush()
        except BaseException:
            path.unlink()
            raise


def _check_test(test: Path, cassette: Path) -> None:
    is_beside = test.parent.resolve() == cassette.parent.resolve()
    if test.exists() or not is_beside or test.name == cassette.name:
        raise typer.BadParameter("--test: a new file, in the folder of the cassette")


def _write_test(test: Path, cassette: Path, request_id: str) -> None:
    name = _NOT_IN_NAMES.sub("_", request_id)
    text = _TEST.format(cassette=cassette.name, name=name, request_id=request_id)
    _write_new(test, text)
    stdout().print(plain_line(f"{test}: run it with pytest."), markup=False)


async def _recorded(
    bus: Bus,
    settings: Settings,
    workflow_id: str | None,
    dead_letter: str | None,
    rules: Collection[str],
) -> tuple[_Wanted, Cassette | None]:
    wanted = _Wanted(workflow_id or "") if dead_letter is None else await _named(bus, dead_letter)
    recording = await recording_of(bus, wanted.workflow_id)
    definitions: Mapping[str, AgentDefinition] = {}
    if unknown := recording.unknown_definitions:
        from services.commands.known_definitions import known_definitions  # noqa: PLC0415 - slow

        definitions = await known_definitions(bus, settings, unknown.values())
    try:
        cassette = recording.cassette(definitions, rules, wanted.request_id)
    except ValidationError as error:
        where, expected = pointer(error.errors()[0]["loc"]), problems_of(error, None)[0].expected
        raise typer.BadParameter(
            f"By these rules it is no cassette, or too large: at {where}, {expected}."
        ) from None
    has_runs = cassette is not None and any(one.request.agent for one in cassette.requests)
    if has_runs and (hidden := await hidden_runs(bus, (STEPS,))):
        refuse(hidden)
    return wanted, cassette


async def _named(bus: Bus, dead_letter: str) -> _Wanted:
    found = (letters := await loaded_once(bus)).named(dead_letter)
    if len(found) != 1:
        report_unavailable_ids(letters, (dead_letter,))
        raise typer.Exit(EXIT_UNKNOWN)
    if found[0].workflow_id is None or found[0].request_id is None:
        raise typer.BadParameter(f"--dead-letter: {dead_letter!r} holds no request.")
    return _Wanted(found[0].workflow_id, found[0].request_id)


async def recording_of(bus: Bus, workflow_id: str) -> Recording:
    """All that is kept of the workflow. Raises BusUnavailable."""
    recording = Recording(workflow_id)
    optional = await bus.present(RUNS, STEPS)
    others = (*optional, *OUTCOMES)
    async with reading(bus, (REQUESTS, *others), workflow_id=workflow_id) as reader:
        for topics in ((REQUESTS,), others):  # whose order is that of the cassette
            async for stored in reader.records(topics):
                _take(recording, workflow_id, stored)
    return recording


def _take(recording: Recording, workflow_id: str, stored: Stored) -> None:
    if may_concern(workflow_id, stored):
        found = decoded(stored)
        event = found.event
        if not isinstance(event, Undecodable | RetryEnded) and found.workflow_id == workflow_id:
            recording.take(event)


def _unplayable(cassette: Cassette) -> list[str]:
    registry = plugins.registry()
    found = []
    for one in cassette.requests:
        exchanges = exchanges_of(one, one.definition, registry)
        if isinstance(exchanges, Unplayable):
            found.append(f"{one.request.request_id} cannot be played: {exchanges.text}.")
    return found


def _rule(text: str) -> str:
    try:
        return _RULE.validate_python(text)
    except ValidationError:
        raise typer.BadParameter(
            f"--redact: {text!r} is not emails, digits or member:NAME."
        ) from None


def _file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name)[:100].lstrip(".") or "workflow"
