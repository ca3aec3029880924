"""Runs on virtual time whose spans are kept."""

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from answerbus.masking import NO_MASK, Mask
from services.settings.settings import SpanContentLevel
from services.telemetry.span import Attributes, Span
from services.worker.adapters.telemetry.span_content import SpanContent
from services.worker.adapters.telemetry.span_observer import SpanObserver
from services.worker.core.attempt.reply import Reply
from services.worker.ports.observer import Observers
from tests.unit.worker.lane.run_checks import finished
from tests.unit.worker.lane.run_world import TWO_STEPS, RunStage, RunWorker

NO_CONTENT = SpanContent("none", NO_MASK)


@dataclass
class KeptSpans:
    """What an exporter was given."""

    spans: list[Span] = field(default_factory=list)

    def span(self, span: Span) -> None:
        self.spans.append(span)

    def call(self, duration_s: float, attributes: Attributes) -> None:
        """Not looked at here."""

    def tokens(self, kind: Literal["input", "output"], count: int, attributes: Attributes) -> None:
        """Not looked at here."""

    def named(self, name: str) -> list[Span]:
        return [span for span in self.spans if span.name == name]


async def watched(stage: RunStage, content: SpanContent = NO_CONTENT) -> KeptSpans:
    """The spans of all that the stage does from now on; its worker takes the place of the first."""
    kept = KeptSpans()
    observers = Observers([SpanObserver(kept, stage.worker.context.planner, content)])
    around = replace(stage.worker.context, observer=observers)
    await stage.worker.crash()
    stage.worker = RunWorker(stage.broker, around)
    await stage.worker.open()
    return kept


async def observed(
    said: Reply | None = None,
    content: SpanContent = NO_CONTENT,
    asked: dict[str, Any] | None = None,
    **stage: Any,
) -> tuple[KeptSpans, RunStage]:
    """A run that has ended, with its spans; `said` is what its model answers each time."""
    made = RunStage(**{"steps": TWO_STEPS, **stage})
    made.provider.reply = said
    kept = await watched(made, content)
    made.publish("r-1", **(asked or {}))
    await finished(made)
    await made.end()
    return kept, made


def showing(level: SpanContentLevel, *secrets: str) -> SpanContent:
    """At a level, where the settings have these secrets."""
    return SpanContent(level, Mask(secrets))
