"""G5, G6 and G9 broken: answers thrown away, workflows out of order, deadlines missed."""

from tests.chaos.by_hand import made
from tests.chaos.by_hand.broken import breaks
from tests.chaos.by_hand.history_builder import HistoryBuilder


@breaks("G5", "r.attempt.1", "wrote it off")
def answer_thrown_away(builder: HistoryBuilder) -> None:
    builder.ask("r")
    builder.spend("r")
    builder.call("r")
    builder.settle("r", 1, "unknown", failure="unknown")
    builder.work("r", 2)


@breaks("G5", "r.attempt.1", "the Attempt says invalid")
def another_outcome(builder: HistoryBuilder) -> None:
    builder.ask("r")
    builder.spend("r")
    builder.call("r", reply="truncated")
    builder.settle("r", 1, "retry", failure="invalid")
    builder.work("r", 2)


@breaks("G5", "r.attempt.1", "the call never ended")
def answer_invented(builder: HistoryBuilder) -> None:
    builder.ask("r")
    builder.spend("r")
    builder.call("r", reply="never")
    builder.settle("r")
    builder.end("r")


@breaks("G5", "r.attempt.2", "its prompt is that of r.attempt.1")
def asked_again_what_was_answered(builder: HistoryBuilder) -> None:
    builder.ask("r")
    for number in (1, 2):
        builder.spend("r", number)
        builder.call("r", number)
        outcome, failure = ("retry", "invalid") if number == 1 else ("result", None)
        digests = {"prompt_digest": made.DIGEST, "answer_digest": made.DIGEST}
        builder.settle("r", number, outcome, failure=failure, **digests)
    builder.end("r", attempt=2)


@breaks("G6", "w", "while one.attempt.1 ran")
def two_at_once(builder: HistoryBuilder) -> None:
    for id_ in ("one", "two"):
        builder.ask(id_)
        builder.work(id_)
    builder.calls[0] = made.lasting(builder.calls[0], 60)


@breaks("G6", "w", "asked for later")
def overtaken(builder: HistoryBuilder) -> None:
    for id_ in ("one", "two"):
        builder.ask(id_)
    builder.work("two")
    builder.work("one")


@breaks("G6", "w", "one.attempt.2 was called after two.attempt.1")
def overtaken_in_a_retry(builder: HistoryBuilder) -> None:
    for id_ in ("one", "two"):
        builder.ask(id_)
    builder.fail("one")
    builder.work("two")
    builder.work("one", 2)
    builder.unlist("one")


@breaks("G9", "r.attempt.1", "after its deadline")
def called_after_the_deadline(builder: HistoryBuilder) -> None:
    builder.ask("r", ttl_s=1)
    builder.tick(2)
    builder.work("r")


@breaks("G9", "r", "its deadline was")
def ended_long_after_the_deadline(builder: HistoryBuilder) -> None:
    builder.ask("r", ttl_s=1)
    builder.ask("later", "another")
    builder.work("later")
    builder.tick(70)
    builder.end("r", "dead_letter")


@breaks("G9", "r", "its deadline is")
def given_up_before_the_deadline(builder: HistoryBuilder) -> None:
    builder.ask("r")
    builder.end("r", "dead_letter", cause={"kind": "deadline_passed"})
