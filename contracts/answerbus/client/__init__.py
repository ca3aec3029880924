"""Ask and subscribe from Python (the extra `answerbus[client]`): see Client and SyncClient."""

from importlib.util import find_spec

if find_spec("aiokafka") is None:
    raise ModuleNotFoundError(
        "answerbus.client needs a Kafka client: install answerbus with its extra `client`, "
        "for instance pip install 'answerbus[client] @ git+URL#subdirectory=contracts'",
        name="aiokafka",
    )

from answerbus.client.ask_many import show_bar
from answerbus.client.client import Client
from answerbus.client.controls import PublishedControl
from answerbus.client.errors import BusRefused, BusUnavailable, NoAnswerYet
from answerbus.client.follow import Followed, FollowedEvent
from answerbus.client.job import JobOutcomes, JobProgress, RowOutcome
from answerbus.client.progress import Progress, Published, Waiting
from answerbus.client.request_id import uuid7
from answerbus.client.subscription import Subscription
from answerbus.client.sync_client import SyncClient
from answerbus.client.sync_subscription import SyncSubscription
from answerbus.dead_letter import DeadLetterError
from answerbus.outcome import RefusalError, UnvalidatedError
from answerbus.outcome_error import OutcomeError

__all__ = [
    "BusRefused",
    "BusUnavailable",
    "Client",
    "DeadLetterError",
    "Followed",
    "FollowedEvent",
    "JobOutcomes",
    "JobProgress",
    "NoAnswerYet",
    "OutcomeError",
    "Progress",
    "Published",
    "PublishedControl",
    "RefusalError",
    "RowOutcome",
    "Subscription",
    "SyncClient",
    "SyncSubscription",
    "UnvalidatedError",
    "Waiting",
    "show_bar",
    "uuid7",
]
