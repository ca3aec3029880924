"""Names of spans and attributes, compared with one commit of OpenTelemetry's GenAI conventions."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics

from answerbus.budget import Usage
from services.settings.profiles import BUILT_IN
from services.telemetry.span import Span, genai_provider
from services.worker.core.attempt.reply import Answered, CallFacts, Refused, Reply
from tests.unit.worker.adapters.telemetry.observed_runs import observed, showing
from tests.unit.worker.core.run_builders import actions, says
from tests.unit.worker.lane.virtual import run

CONVENTIONS = json.loads((Path(__file__).parent / "genai_conventions.json").read_text())
NAME = re.compile(r"gen_ai\.[a-z_.]*[a-z]")
EVENTS = {"gen_ai.evaluation.result"}
NOT_LISTED = {"ollama", "scripted"}  # servers and files of one's own
TYPES: dict[str, Any] = {"string": str, "int": int, "string[]": tuple, "json": str}
USAGE = Usage(
    input_tokens=9, output_tokens=5, cached_tokens=4, cache_write_tokens=1, reasoning_tokens=2
)
FACTS = CallFacts("m", "req", "stop", USAGE)
FAILED = {"kind": "error", "code": "away", "message": "no"}


@pytest.mark.parametrize(
    "said",
    [None, Answered(json.dumps(actions(says("Done."))), FACTS), Refused("no", FACTS)],
    ids=["a run with tools", "all tokens", "refused"],
)
@pytest.mark.parametrize("fails", [False, True], ids=["", "its tools fail"])
def test_spans_are_of_the_pinned_conventions(said: Reply | None, *, fails: bool) -> None:
    given = FAILED if fails else {"kind": "ok", "value": "done"}
    kept, _ = run(observed(said, showing("full"), tooling=lambda _: [(0.02, given)]))

    assert kept.named("chat m")
    assert kept.named("invoke_agent support")
    assert [fault for span in kept.spans for fault in faults(span)] == []


def faults(span: Span) -> Iterator[str]:
    """What the conventions of its operation say otherwise."""
    own = {name for name in span.attributes if name.startswith("gen_ai.")}
    operation = span.attributes["gen_ai.operation.name"]
    expected = CONVENTIONS["spans"][operation]
    if span.name != f"{operation} {span.attributes[expected['named_by']]}":
        yield f"{span.name}: another name"
    if span.kind != expected["kind"]:
        yield f"{span.name}: {span.kind}"
    for name in expected["required"]:
        if name not in own:
            yield f"{span.name}: without {name}"
    for name in own - {*expected["attributes"], *CONVENTIONS["everywhere"]}:
        yield f"{span.name}: {name} is not of it"
    for kind, names in CONVENTIONS["types"].items():
        for name in own & {*names}:
            if not isinstance(span.attributes[name], TYPES[kind]):
                yield f"{span.name}: {name} is no {kind}"
    if span.failed != ("error.type" in span.attributes):
        yield f"{span.name}: failed, and no error.type, or the other way round"


def test_each_name_in_code_and_docs_is_one_of_opentelemetrys() -> None:
    files = [*Path("services").rglob("*.py"), *Path("docs").glob("*.md")]
    used = {name for file in files for name in NAME.findall(file.read_text())} - EVENTS
    known = {
        value
        for module in (gen_ai_attributes, gen_ai_metrics)
        for value in vars(module).values()
        if isinstance(value, str) and value.startswith("gen_ai.")
    }

    assert len(used) > 25
    assert used - known == set()


def test_the_page_of_collectors_has_each_attribute_of_spans() -> None:
    sources = Path("services/worker/adapters/telemetry").glob("span_*.py")
    sent = {name for file in sources for name in NAME.findall(file.read_text())}

    assert {*NAME.findall(Path("docs/tracing.md").read_text())} == sent


def test_providers_have_the_names_of_the_conventions() -> None:
    names = {genai_provider(name) for name in BUILT_IN}

    assert names - {*CONVENTIONS["values"]["gen_ai.provider.name"]} == NOT_LISTED
