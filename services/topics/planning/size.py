"""Judges topics with more or fewer partitions than the deployment uses; pure."""

from collections.abc import Mapping

from answerbus.partition import Layout
from answerbus.topics import REQUESTS, Topic
from services.topics.planning.plan import Found

MOVE = "`answerbus topics move`"


def unusable(found: Mapping[Topic, Found], layout: Layout, prefix: str) -> str | None:
    """Why no lane can work on these topics; None if they can be used."""
    if layout.moving_to is not None:
        return unfinished(layout.partitions, layout.moving_to)
    for topic, there in found.items():
        if there.partitions < layout.partitions:
            return (
                f"The topic {topic.full_name(prefix)} has {there.partitions} partitions and this "
                f"deployment has {layout.partitions}: `answerbus topics apply` with "
                f"`kafka.partitions` {layout.partitions} gives it the missing ones, and keeps what "
                "it holds."
            )
    return None


def unfinished(partitions: int, moving_to: int) -> str:
    """What is to be done about a move that was cut short."""
    return (
        f"A move from {partitions} to {moving_to} partitions has begun and has not ended: run "
        f"`answerbus topics move --partitions {moving_to}` again, or with {partitions} to go back."
    )


def beyond(found: Mapping[Topic, Found], partitions: int) -> str | None:
    """What is to be known of partitions that are not used; None if there are none."""
    counts = {
        topic.name: there.partitions
        for topic, there in found.items()
        if there.partitions > partitions and topic.partitions is None
    }
    if not counts:
        return None
    listed = ", ".join(f"{name} {count}" for name, count in counts.items())
    read = (
        "records in the added partitions of requests are forwarded to those that own them"
        if REQUESTS.name in counts
        else "the added ones are not used"
    )
    return (
        f"some topics have more partitions ({listed}) than the {partitions} of this deployment: "
        f"{read}; {MOVE} changes the number"
    )
