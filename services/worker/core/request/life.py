"""The life of a request in its lane as a table of states and events; pure."""

from collections.abc import Mapping
from datetime import datetime
from enum import Enum, auto
from typing import NamedTuple

from answerbus.cause import Cancelled


class RequestState(Enum):
    """Where a request is in its lane; the value says it in words."""

    WAITING = "behind another request of its workflow"
    READY = "takes its turn: round robin over profiles, then tenants, then workflows"
    RUNNING = "prepared, called, settled"
    DELAYED = "until the moment of its retry"
    AWAITING_BUDGET = "until a call of its account is settled, or its budgets have room"
    AWAITING_TOOLS = "until the calls of its step have ended, and the requests that they asked"
    ENDING = "cancelled: it ends as soon as no request that it asked is open"
    DONE = "its outcome is committed"

    __hash__ = object.__hash__  # by identity: that of Enum is Python code, and a step of each event


class RequestEvent(Enum):
    ADMITTED = auto()  # no request of its workflow is in front of it
    TURN = auto()  # its profile and its workflow have room for it
    WAITED = auto()  # the provider did no work: it is asked again, without a place in the queue
    RETRY = auto()  # it is tried again later: committed, or found when the lane opened
    STEP = auto()  # its answer called tools: committed, or found when the lane opened
    BUDGET_GONE = auto()  # nothing of its account is free
    BUDGET_BACK = auto()  # something of its account may be free
    DUE = auto()  # the moment of its retry has come
    SIGNAL = auto()  # the last of its calls, or of the requests that it asked, has ended
    CANCELLED = auto()  # by a person, or by the end of the call that asked it
    DEADLINE = auto()  # it has passed, and no request that it asked is open
    OUTCOME = auto()  # committed
    REOPENED = auto()  # its lane lost its producer and has another one; its call went on

    __hash__ = object.__hash__


_BY_STATE: Mapping[RequestState, Mapping[RequestEvent, RequestState]] = {
    RequestState.WAITING: {
        RequestEvent.ADMITTED: RequestState.READY,
        RequestEvent.RETRY: RequestState.DELAYED,
        RequestEvent.STEP: RequestState.AWAITING_TOOLS,
        RequestEvent.CANCELLED: RequestState.ENDING,
        RequestEvent.DEADLINE: RequestState.RUNNING,
    },
    RequestState.READY: {
        RequestEvent.TURN: RequestState.RUNNING,
        RequestEvent.CANCELLED: RequestState.ENDING,
        RequestEvent.DEADLINE: RequestState.RUNNING,
    },
    RequestState.RUNNING: {
        RequestEvent.WAITED: RequestState.RUNNING,
        RequestEvent.RETRY: RequestState.DELAYED,
        RequestEvent.STEP: RequestState.AWAITING_TOOLS,
        RequestEvent.BUDGET_GONE: RequestState.AWAITING_BUDGET,
        RequestEvent.CANCELLED: RequestState.ENDING,
        RequestEvent.OUTCOME: RequestState.DONE,
        RequestEvent.REOPENED: RequestState.RUNNING,
    },
    RequestState.DELAYED: {
        RequestEvent.DUE: RequestState.READY,
        RequestEvent.CANCELLED: RequestState.ENDING,
        RequestEvent.DEADLINE: RequestState.RUNNING,
    },
    RequestState.AWAITING_BUDGET: {
        RequestEvent.BUDGET_BACK: RequestState.READY,
        RequestEvent.CANCELLED: RequestState.ENDING,
        RequestEvent.DEADLINE: RequestState.RUNNING,
    },
    RequestState.AWAITING_TOOLS: {
        RequestEvent.SIGNAL: RequestState.READY,
        RequestEvent.CANCELLED: RequestState.ENDING,
        RequestEvent.DEADLINE: RequestState.RUNNING,
    },
    RequestState.ENDING: {
        RequestEvent.TURN: RequestState.ENDING,
        RequestEvent.WAITED: RequestState.ENDING,
        RequestEvent.RETRY: RequestState.ENDING,
        RequestEvent.STEP: RequestState.ENDING,
        RequestEvent.DEADLINE: RequestState.ENDING,
        RequestEvent.OUTCOME: RequestState.DONE,
        RequestEvent.REOPENED: RequestState.RUNNING,  # and is cancelled again if that was committed
    },
    RequestState.DONE: {},
}

TRANSITIONS: Mapping[tuple[RequestState, RequestEvent], RequestState] = {
    (state, event): after for state, row in _BY_STATE.items() for event, after in row.items()
}


class Life(NamedTuple):
    """A state, and what only that state has.

    `until` is the moment of a retry, of one that is delayed or will be. `then` is what follows for
    a request that waits, once it is the first of its workflow. `cause` is why one that is ending
    was cancelled.
    """

    state: RequestState = RequestState.WAITING
    until: datetime | None = None
    then: RequestEvent = RequestEvent.ADMITTED
    cause: Cancelled | None = None

    def after(
        self, event: RequestEvent, until: datetime | None = None, cause: Cancelled | None = None
    ) -> "Life":
        """The state after an event, and what it has. Raises LookupError for a bug."""
        state = _BY_STATE[self.state][event]
        if state is self.state:
            return self
        return Life(state, until, cause=cause) if until or cause else _LIVES[state]


_LIVES = {state: Life(state) for state in RequestState}
