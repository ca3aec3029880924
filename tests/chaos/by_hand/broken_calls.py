"""G5, G6 and G9 broken: answers thrown away, workflows out of order, deadlines missed."""

from tests.chaos.by_hand import made
from tests.chaos.by_hand.broken import breaks
from tests.chaos.by_hand.story import Story


@breaks("G5", "r.attempt.1", "wrote it off")
def answer_thrown_away(story: Story) -> None:
    story.ask("r")
    story.spend("r")
    story.call("r")
    story.settle("r", 1, "unknown", failure="unknown")
    story.work("r", 2)


@breaks("G5", "r.attempt.1", "the Attempt says invalid")
def another_story(story: Story) -> None:
    story.ask("r")
    story.spend("r")
    story.call("r", reply="truncated")
    story.settle("r", 1, "retry", failure="invalid")
    story.work("r", 2)


@breaks("G5", "r.attempt.1", "the call never ended")
def answer_invented(story: Story) -> None:
    story.ask("r")
    story.spend("r")
    story.call("r", reply="never")
    story.settle("r")
    story.end("r")


@breaks("G6", "w", "while one.attempt.1 ran")
def two_at_once(story: Story) -> None:
    for id_ in ("one", "two"):
        story.ask(id_)
        story.work(id_)
    story.calls[0] = made.lasting(story.calls[0], 60)


@breaks("G6", "w", "asked for later")
def overtaken(story: Story) -> None:
    for id_ in ("one", "two"):
        story.ask(id_)
    story.work("two")
    story.work("one")


@breaks("G6", "w", "one.attempt.2 was called after two.attempt.1")
def overtaken_in_a_retry(story: Story) -> None:
    for id_ in ("one", "two"):
        story.ask(id_)
    story.fail("one")
    story.work("two")
    story.work("one", 2)
    story.unlist("one")


@breaks("G9", "r.attempt.1", "after its deadline")
def called_after_the_deadline(story: Story) -> None:
    story.ask("r", ttl_s=1)
    story.tick(2)
    story.work("r")


@breaks("G9", "r", "its deadline was")
def ended_long_after_the_deadline(story: Story) -> None:
    story.ask("r", ttl_s=1)
    story.ask("later", "another")
    story.work("later")
    story.tick(70)
    story.end("r", "dead_letter")


@breaks("G9", "r", "its deadline is")
def given_up_before_the_deadline(story: Story) -> None:
    story.ask("r")
    story.end("r", "dead_letter", cause={"kind": "deadline_passed"})
