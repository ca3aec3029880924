"""An outcome on the screen: the answer as data, everything else as words round it."""

from typing import assert_never

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.text import Text

from answerbus.dead_letter import DeadLetter
from answerbus.event import AnyOutcome
from answerbus.outcome import Refusal, Result, UnvalidatedResult
from answerbus.schema_name import schema_name
from services.command_line import json_shown
from services.operators.explain import died_text, failure_text, problem_text, remedy, written_text
from services.operators.records.event_line import result_text
from services.text.escaping import plain, plain_line

NOTES_SHOWN_MAX = 3


def show(outcome: AnyOutcome, data: Console, words: Console) -> None:
    """The answer of a result goes to `data`, all else to `words`."""
    match outcome:
        case Result():
            data.print(_json(outcome.answer))
            words.print(_footer(outcome))
        case UnvalidatedResult():
            problems = "\n".join(map(problem_text, outcome.problems))
            answer = _json(outcome.unvalidated_answer)
            _print_box(words, _panel("This answer is not valid", "yellow", Text(problems), answer))
            words.print(_footer(outcome))
        case Refusal():
            who = f"Declined by the {outcome.by}"
            category = "" if outcome.category is None else f" ({plain_line(outcome.category)})"
            _print_box(words, _panel(who + category, "magenta", Text(plain(outcome.reason))))
            words.print(_footer(outcome))
        case DeadLetter():
            _print_box(words, _dead_letter(outcome))
        case _:
            assert_never(outcome)


def _dead_letter(dead_letter: DeadLetter) -> Panel:
    attempts = [
        line
        for prior in dead_letter.prior
        for line in (
            f"Attempt {prior.attempt}: {failure_text(prior.failure)}",
            *(f"  the model wrote {text}" for text in written_text(prior.failure).splitlines()),
        )
    ]
    return _panel(
        "Dead letter",
        "red",
        Text(died_text(dead_letter), "bold"),
        *(Text(line, "dim") for line in attempts),
        Text(remedy(dead_letter.cause, of_run=dead_letter.run is not None)),
        Text(f"Its id is {plain_line(dead_letter.dead_letter_id)}", "dim"),
    )


def _json(answer: object) -> RenderableType:
    if isinstance(answer, str):
        return Text(plain(answer))
    return json_shown(answer)


def _footer(result: Result[object] | UnvalidatedResult | Refusal) -> Text:
    lines = [f"{plain_line(schema_name(result.answered_schema).label)}, {result_text(result)}"]
    lines += [f"Note: {plain_line(note)}" for note in result.notes[:NOTES_SHOWN_MAX]]
    if len(result.notes) > NOTES_SHOWN_MAX:
        lines.append(f"and {len(result.notes) - NOTES_SHOWN_MAX} more notes, which --json shows")
    return Text("\n".join(lines), "dim")


def _print_box(console: Console, box: Panel) -> None:
    """With lines that end where the outcome does: longer ones would be cut."""
    console.print(box, soft_wrap=False)


def _panel(title: str, style: str, *content: RenderableType) -> Panel:
    return Panel(Group(*content), title=Text(title), border_style=style, title_align="left")
