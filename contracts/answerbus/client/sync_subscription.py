"""A subscription as a plain iterator."""

from typing import Generic, Self

from answerbus.client.loop_thread import LoopThread
from answerbus.client.subscription import AnswerT, DeadLetterT, Item, Subscription


class SyncSubscription(Generic[AnswerT, DeadLetterT]):
    """One contract's outcomes, as an iterator inside of a `with`: see Subscription.

        with client.subscribe(response_model=PlanProposal, group_id="billing") as outcomes:
            for outcome in outcomes:
                book(outcome)

    The client's thread keeps the place in the consumer group while the loop works on an item.
    """

    def __init__(
        self, subscription: Subscription[AnswerT, DeadLetterT], thread: LoopThread
    ) -> None:
        self._subscription = subscription
        self._thread = thread

    def __enter__(self) -> Self:
        self._thread.enter(self._subscription)
        return self

    def __exit__(self, *raised: object) -> None:
        self._thread.leave(self._subscription, *raised)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> "Item[AnswerT] | DeadLetterT":
        try:
            return self._thread.call(self._subscription.__anext__())
        except StopAsyncIteration:  # as a FakeClient's ends, when all is delivered
            raise StopIteration from None
