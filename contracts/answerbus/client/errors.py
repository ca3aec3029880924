"""The exceptions of a client: Kafka cannot be used, or no outcome has come yet.

ConnectionError
    BusUnavailable    Kafka or a topic cannot be used, or does not answer in time; the text says
                      what to do
        BusRefused    Kafka answers and refuses: credentials, certificates, protocol, rights; or
                      none of its brokers can be reached where they say that they are
        LanesDisagree the ledger does not say how many partitions the deployment uses
TimeoutError
    NoAnswerYet       the request was published and goes on; `Client.outcome_of` waits further
"""

from typing import Self


class BusUnavailable(ConnectionError):
    """Kafka or a topic cannot be used; the text says in one sentence what to do about it."""


class BusRefused(BusUnavailable):
    """Kafka answers and does not let us in, or not so far: a wrong option, or a missing right."""


class LanesDisagree(BusUnavailable):
    """As many lanes say one number of partitions as another: an operator skips the wrong one."""


class NoAnswerYet(TimeoutError):
    """A published request has had no outcome so far; it is not lost and goes on."""

    def __init__(self, request_id: str, workflow_id: str, waited_s: float | None) -> None:
        """Names the request and the call that waits further."""
        super().__init__(
            f"Request {request_id} has had no outcome within {waited_s} s. If it was published, it "
            f"goes on: await client.outcome_of({request_id!r}, {workflow_id!r}) waits for it, "
            "also from another process, as long as the topics keep it."
        )
        self.request_id = request_id
        self.workflow_id = workflow_id
        self._waited_s = waited_s

    def __reduce__(self) -> tuple[type[Self], tuple[str, str, float | None]]:
        """An exception is copied by its message otherwise, as between processes."""
        return type(self), (self.request_id, self.workflow_id, self._waited_s)
