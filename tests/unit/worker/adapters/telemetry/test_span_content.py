"""What spans show of prompts, answers, arguments and results, by the setting."""

import json
from dataclasses import replace
from typing import Any

import pytest

from services.telemetry.span import Span
from services.worker.adapters.telemetry.span_content import CONTENT_BYTES_MAX
from services.worker.core.attempt.reply import Answered, CallFacts
from services.worker.core.attempt.turn import Turn
from tests.unit.worker.adapters.telemetry.observed_runs import KeptSpans, observed, showing
from tests.unit.worker.builders import case, prompt
from tests.unit.worker.core.run_builders import actions, call, says
from tests.unit.worker.lane.run_world import TWO_STEPS
from tests.unit.worker.lane.virtual import run

MAIL, CARD, SECRET = "ann@acme.example", "4111111111111111", "sk-hidden-from-all"
SYSTEM, INPUT, OUTPUT = (
    f"gen_ai.{name}" for name in ("system_instructions", "input.messages", "output.messages")
)
ARGUMENTS, RESULT = "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"
CONTENT = {SYSTEM, INPUT, OUTPUT, ARGUMENTS, RESULT}
TOLD = f"Write to {MAIL} of card {CARD}, key {SECRET}."


def texts_of(spans: list[Span]) -> str:
    return "\n".join(str(s.attributes[name]) for s in spans for name in CONTENT & {*s.attributes})


def leaky(level: Any) -> KeptSpans:
    """A run whose request, tool and model say what others must not read."""
    steps = (actions(says(TOLD), call(order_id="7")), actions(says(f"Done. {TOLD}")))
    value = {"kind": "ok", "value": {"text": TOLD, "card": int(CARD)}}
    asked = {"context": {"instructions": TOLD}}
    content = showing(level, SECRET)
    kept, _ = run(observed(None, content, asked, steps=steps, tooling=lambda _: [(0.02, value)]))
    return kept


def test_spans_show_nothing_unless_it_is_wanted() -> None:
    kept, _ = run(observed())

    assert {name for span in kept.spans for name in span.attributes} & CONTENT == set()


def test_full_content_is_what_was_shown_written_called_and_given() -> None:
    kept, _ = run(observed(None, showing("full")))
    (agent,) = kept.named("invoke_agent support")
    first, *_, last = kept.named("chat m")
    tool = kept.named("execute_tool orders.get")[0]
    system, shown, wrote = (json.loads(str(last.attributes[n])) for n in (SYSTEM, INPUT, OUTPUT))

    assert system[0]["type"] == "text"
    assert [message["role"] for message in shown][-1] == "user"
    assert json.loads(wrote[0]["parts"][0]["content"]) == TWO_STEPS[-1]
    assert wrote[0]["finish_reason"] == "stop"
    assert len(json.loads(str(first.attributes[INPUT]))) < len(shown)
    assert json.loads(str(tool.attributes[ARGUMENTS])) == {"order_id": "1"}
    assert json.loads(str(tool.attributes[RESULT])) == "done"
    assert "Say something." in str(agent.attributes[INPUT])
    assert "All is well." in str(agent.attributes[OUTPUT])


def test_full_content_hides_nothing() -> None:
    shown = texts_of(leaky("full").spans)

    assert all(word in shown for word in (MAIL, CARD, SECRET))


def test_redacted_content_has_no_address_no_long_number_and_no_secret() -> None:
    kept = leaky("redacted")
    shown = texts_of(kept.spans)

    assert [word for word in (MAIL, CARD, SECRET) if word in shown] == []
    assert {name for span in kept.spans for name in span.attributes} >= CONTENT
    assert "Write to *** of card ***, key ***." in shown


@pytest.mark.parametrize("level", ["redacted", "full"])
@pytest.mark.parametrize("newest", [1, 5_000, CONTENT_BYTES_MAX - 1, 100_000])
def test_of_a_prompt_the_newest_8_kib_are_shown(level: Any, newest: int) -> None:
    turns = (Turn("user", "a" * 9_000), Turn("assistant", "b" * newest))
    asked = replace(case(), prompt=replace(prompt(), system="s" * 9_000, turns=turns))
    shown = showing(level).of_call(asked)
    texts = [one["parts"][0]["content"] for one in json.loads(str(shown[INPUT]))]
    (system,) = json.loads(str(shown[SYSTEM]))

    assert sum(len(text.encode()) for text in texts) <= CONTENT_BYTES_MAX
    assert texts[-1].startswith("b" * min(newest, 8_000))
    assert len(texts) == (2 if newest <= 5_000 else 1)
    assert len(system["content"].encode()) == CONTENT_BYTES_MAX


@pytest.mark.parametrize("beyond", [0, 1, 4, 9, 12])
def test_what_is_cut_in_an_address_or_a_number_does_not_show_its_beginning(beyond: int) -> None:
    for hidden in (MAIL, CARD):
        text = ". " * CONTENT_BYTES_MAX
        at = CONTENT_BYTES_MAX - 3 - beyond  # where an ellipsis would be put
        turns = (Turn("user", f"{text[:at]}{hidden}"),)
        asked = replace(case(), prompt=replace(prompt(), turns=turns))
        (message,) = json.loads(str(showing("redacted").of_call(asked)[INPUT]))

        assert set(message["parts"][0]["content"]) <= set(". *\u2026")


@pytest.mark.parametrize("key", ["ab3f9c1123456d4e5f6a", "AKIA123456QWERTYUI"])
def test_a_secret_with_a_long_number_in_it_is_hidden_whole(key: str) -> None:
    asked = replace(case(), prompt=replace(prompt(), turns=(Turn("user", f"Key {key}."),)))
    (message,) = json.loads(str(showing("redacted", key).of_call(asked)[INPUT]))

    assert message["parts"][0]["content"] == "Key ***."


@pytest.mark.parametrize("beyond", range(0, 20, 3))
def test_where_much_is_hidden_the_place_at_which_reading_ends_is_not_shown(beyond: int) -> None:
    text = f"{CARD} " * 1_000
    turns = (Turn("user", f"{text[: CONTENT_BYTES_MAX + 512 - 3 - beyond]} {MAIL} {text}"),)
    asked = replace(case(), prompt=replace(prompt(), turns=turns))
    (message,) = json.loads(str(showing("redacted").of_call(asked)[INPUT]))

    assert set(message["parts"][0]["content"]) <= set(" *\u2026")


def test_of_arguments_results_and_answers_the_first_8_kib_are_shown() -> None:
    given = {"kind": "ok", "value": "y" * 60_000}
    steps = (actions(call(order_id="1" * 9_000)), actions(says("w" * 20_000)))
    asked = {"context": {"instructions": "z" * 100_000}}
    kept, _ = run(
        observed(None, showing("full"), asked, steps=steps, tooling=lambda _: [(0.0, given)])
    )
    shown = [str(s.attributes[name]) for s in kept.spans for name in CONTENT & {*s.attributes}]

    assert max(len(text.encode()) for text in shown) < CONTENT_BYTES_MAX + 500
    assert {ARGUMENTS, RESULT} <= {name for span in kept.spans for name in span.attributes}


def test_half_a_surrogate_pair_does_not_stop_the_exporter() -> None:
    said = Answered(json.dumps(actions(says("Half: \ud800."))), CallFacts("m"))
    odd = Answered(said.content.replace("\\ud800", "\ud800"), said.facts)
    kept, _ = run(observed(odd, showing("full"), asked={"budget": {"attempts": 2}}))

    assert texts_of(kept.spans).encode()
