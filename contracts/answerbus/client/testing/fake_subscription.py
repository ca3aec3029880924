"""A subscription to a FakeBus: at least once by group, and at its end when all is delivered."""

from collections.abc import Sequence
from types import TracebackType
from typing import Self, cast

from answerbus.client.answer_type import AnswerType
from answerbus.client.bus import Bus
from answerbus.client.subscription import AnswerT, DeadLetterT, Item, Subscription, item_of
from answerbus.client.testing.fake_bus import FakeBus
from answerbus.topics import Topic


class FakeSubscription(Subscription[AnswerT, DeadLetterT]):
    """Ends when it has delivered all outcomes that there are, so that a test goes on.

    What is not done, since the loop was left with an exception, comes again to the next
    subscription of the group, as on the bus.
    """

    def __init__(
        self,
        bus: Bus,
        fake: FakeBus,
        answers: AnswerType[AnswerT],
        group_id: str,
        topics: Sequence[Topic],
        *,
        children: bool,
    ) -> None:
        super().__init__(bus, answers, group_id, {}, topics, children=children)
        self._fake = fake
        self._names = {topic.full_name(bus.prefix) for topic in topics}
        self._next: int | None = None

    async def __aenter__(self) -> Self:
        self._next = self._fake.done.get(self._group_id, 0)
        return self

    async def __aexit__(
        self,
        raised: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if raised is None:
            self._note_done()
        self._next = None

    async def __anext__(self) -> "Item[AnswerT] | DeadLetterT":
        if self._next is None:
            raise RuntimeError("A Subscription is used inside of `async with ... as outcomes:`.")
        self._note_done()
        while self._next < len(self._fake.outcomes):
            record = self._fake.outcomes[self._next]
            self._next += 1
            if record.topic not in self._names:
                continue
            item = item_of(record, self._answers, children=self._children)
            if item is not None:
                return cast("Item[AnswerT] | DeadLetterT", item)
        self._note_done()
        raise StopAsyncIteration

    def _note_done(self) -> None:
        """All that was handed out before."""
        if self._next is not None:
            self._fake.done[self._group_id] = self._next
