"""The whole bus for the survey: a broker, the model behind the recorder, a worker; and its rows."""

from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aiokafka import AIOKafkaProducer

from answerbus.attempt import Attempt
from answerbus.client.bus import Bus
from answerbus.dead_letter import DeadLetter
from answerbus.envelope import encode
from answerbus.event import AnyOutcome
from answerbus.outcome import Refusal, Result, UnvalidatedResult
from answerbus.partition import partition_of
from answerbus.topics import (
    ATTEMPTS,
    DEAD_LETTERS,
    PARTITIONS_DEFAULT,
    PREFIX_DEFAULT,
    REFUSALS,
    REQUESTS,
    RESULTS,
)
from infra.local_model.report import Report
from infra.local_model.serving import ALIAS
from infra.ports import free_ports
from infra.stack import Place, start_stack
from services.operators.adapters.reader import reading
from services.operators.records.decoded import decoded
from tests.model_survey.judging import judged
from tests.model_survey.questions import PROFILE, UNSEEN, Question
from tests.model_survey.recorder import Recorder, recording
from tests.model_survey.rows import Row
from tests.model_survey.sample import DIALECT

OUTPUT_TOKENS = 256
AHEAD = 3  # so that the model is never without work
WORKER_STOP_S = 2.0  # who stops the survey does not wait for the calls in flight
# A profile that requests are asked under, behind the recorder.
_PROFILE = """\
[profiles.{name}]
provider = "openai"
base_url = "{base_url}"
dialect = "{dialect}"
model = "{model}"
temperature = 0
timeout_s = 600
max_in_flight = 2
max_output_tokens = {output_tokens}
show_schema = {shown}
"""


@dataclass
class Survey:
    """What runs, and what has been heard of questions that have not ended."""

    bus: Bus
    recorder: Recorder
    attempts: dict[str, list[Attempt]] = field(default_factory=lambda: defaultdict(list))
    terminals: dict[str, AnyOutcome] = field(default_factory=dict)

    async def ask(self, questions: Sequence[Question]) -> AsyncGenerator[Row, None]:
        """Publish them, a few ahead, and give each row as soon as its question has ended."""
        left, waiting = deque(questions), dict[str, Question]()
        async with (
            reading(self.bus, (RESULTS, REFUSALS, DEAD_LETTERS, ATTEMPTS)) as reader,
            self.bus.running(self.bus.producer()) as producer,
        ):
            async for batch in reader.follow():
                for stored in batch:
                    self._hear(decoded(stored).event)
                for row in self._ended(waiting):
                    del waiting[row.id]
                    yield row
                while left and len(waiting) < AHEAD:
                    question = left.popleft()
                    await self._publish(producer, question)
                    waiting[question.id] = question
                if not waiting:
                    return

    async def _publish(self, producer: AIOKafkaProducer, question: Question) -> None:
        record = encode(question.request())
        place = self.bus.place(REQUESTS, partition_of(question.id, PARTITIONS_DEFAULT))
        await producer.send_and_wait(
            place.topic, record.value, record.key, place.partition, headers=record.headers
        )

    def _hear(self, event: object) -> None:
        match event:
            case Attempt():
                self.attempts[event.request_id].append(event)
            case Result() | UnvalidatedResult() | Refusal() | DeadLetter() if event.request_id:
                self.terminals[event.request_id] = event
            case _:
                pass

    def _ended(self, waiting: dict[str, Question]) -> Iterator[Row]:
        """The terminals of which all attempts have been heard, which may come a moment later."""
        for name, terminal in list(self.terminals.items()):
            attempts = sorted(self.attempts[name], key=lambda attempt: attempt.attempt)
            counted = sum(attempt.counted for attempt in attempts)
            if name in waiting and (
                terminal.account is None or counted == terminal.account.spent.attempts
            ):
                yield judged(waiting[name], terminal, attempts, self.recorder.answers)


@contextmanager
def surveying(folder: Path, report: Report) -> Iterator[Survey]:
    """A survey on a broker, a model and a worker of its own. Raises SetupError."""
    model_port, *_ = free_ports(1)
    with recording(model_port) as recorder:
        place = Place(
            folder,
            model_port=model_port,
            workers=1,
            drain_s=WORKER_STOP_S,
            profiles="\n".join(
                _PROFILE.format(
                    name=name,
                    base_url=recorder.base_url,
                    dialect=DIALECT,
                    model=ALIAS,
                    output_tokens=OUTPUT_TOKENS,
                    shown=shown,
                )
                for name, shown in ((PROFILE, "true"), (UNSEEN, "false"))
            ),
        )
        stack = start_stack(place, report.say, report)
        try:
            yield Survey(Bus(stack.bootstrap_servers, PREFIX_DEFAULT, {}), recorder)
        finally:
            stack.stop()
