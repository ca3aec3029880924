"""Ask and subscribe from Python (the extra `answerbus[client]`): see Client."""

from answerbus.client.client import Client
from answerbus.client.connection import Published
from answerbus.client.errors import BusRefused, BusUnavailable, NoAnswerYet
from answerbus.client.request_id import uuid7
from answerbus.client.subscription import Subscription

__all__ = [
    "BusRefused",
    "BusUnavailable",
    "Client",
    "NoAnswerYet",
    "Published",
    "Subscription",
    "uuid7",
]
