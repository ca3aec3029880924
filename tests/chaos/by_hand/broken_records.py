"""G1, G2 and G10 broken: records lost, doubled or invented."""

import hashlib

from tests.chaos.audit.canonical import digest
from tests.chaos.by_hand.broken import attempted, breaks
from tests.chaos.by_hand.story import Story


@breaks("G1", "r", "no terminal")
def request_lost(story: Story) -> None:
    story.ask("r")


@breaks("G1", "made.requests.v1-0-0", "no letter about it")
def garbage_lost(story: Story) -> None:
    story.put("requests", 0, b"", b"no JSON")


@breaks("G1", "made.requests.v1-0-1", "its body is another")
def conflict_lost(story: Story) -> None:
    story.ask("r")
    story.work("r")
    story.ask("r", labels={"another": "body"})


@breaks("G1", "made.requests.v1-1-0", "neither forwarded nor refused", partitions=2)
def stray_lost(story: Story) -> None:
    story.ask("r", partition=1)


@breaks("G1", "made.requests.v1-1-0", "2 forwarded copies", partitions=2)
def forwarded_twice(story: Story) -> None:
    stray = story.ask("r", partition=1)
    story.forward(stray, 0)
    story.forward(stray, 0)
    story.work("r")


@breaks("G1", "made.requests.v1-0-0", "its owner forwarded it")
def forwarded_by_its_owner(story: Story) -> None:
    story.forward(story.ask("r"), 0)
    story.work("r")


@breaks("G1", "made.requests.v1-0-0", "where it never stood", partitions=2)
def forwarded_from_nowhere(story: Story) -> None:
    story.forward(story.ask("r", partition=1), 0)
    story.records = [r for r in story.records if r.partition == 0]
    story.work("r")


@breaks("G2", "ledger-0-4", "no chunk has")
def closed_id_ended_without_a_chunk(story: Story) -> None:
    story.ask("r")
    story.work("r")
    story.put("ledger", 0, b"closed:r", None)


@breaks("G1", "made.requests.v1-0-0", "it is a request")
def request_refused(story: Story) -> None:
    story.refuse(story.ask("r"), "undecodable")


@breaks("G1", "made.requests.v1-0-0", "2 letters")
def refused_twice(story: Story) -> None:
    garbage = story.put("requests", 0, b"", b"no JSON")
    story.refuse(garbage, "undecodable")
    story.refuse(garbage, "undecodable")


@breaks("G1", "r", "is not there")
def terminal_invented(story: Story) -> None:
    story.ask("r")
    story.records.clear()
    story.tell("r")


@breaks("G1", "made.requests.v1-0-0.dead-letter", "is not there")
def letter_invented(story: Story) -> None:
    story.refuse(story.put("requests", 0, b"", b"no JSON"), "undecodable")
    story.records = [r for r in story.records if r.topic == "dead-letters"]


@breaks("G1", "ghost", "there is no event")
def closed_for_nothing(story: Story) -> None:
    story.close("ghost", "result", digest("x"), "w")


@breaks("G1", "r", "no record of it was")
def asked_at_another_time(story: Story) -> None:
    attempted(story)
    story.end("r", requested_at="2026-11-21T08:00:00.000Z")


@breaks("G2", "r", "2 terminals")
def answered_and_refused(story: Story) -> None:
    story.ask("r")
    story.work("r")
    story.tell("r", "refusal")


@breaks("G2", "r", "not r.result")
def terminal_with_an_id_of_its_own(story: Story) -> None:
    attempted(story)
    story.end("r", event_id="r.result.1")


@breaks("G2", "r", "no closed entry")
def terminal_not_closed(story: Story) -> None:
    story.ask("r")
    story.work("r")
    assert story.records.pop().topic == "ledger"


@breaks("G2", "r", "it ended as")
def closed_as_something_else(story: Story) -> None:
    story.ask("r")
    story.work("r")
    story.close("r", "refusal", digest(story.asked["r"][0]), "w")


@breaks("G2", "made.requests.v1-0-0", "closed this record as None")
def letter_not_closed(story: Story) -> None:
    story.refuse(story.put("requests", 0, b"", b"no JSON"), "undecodable")
    assert story.records.pop().topic == "ledger"


@breaks("G2", "r", "retries-0-0 lists it")
def still_on_the_list(story: Story) -> None:
    story.ask("r")
    story.fail("r")
    story.work("r", 2)


@breaks("G10", "letter", "round 1 of its replay made the requests one, two")
def replayed_twice(story: Story) -> None:
    account = f"w~{hashlib.sha256(b'letter').hexdigest()[:12]}"
    replay = {"dead_letter_id": "letter", "round": 1, "account": account, "by": "me"}
    for id_ in ("one", "two"):
        story.ask(id_, replay={**replay, "edited": False})
        story.work(id_)
