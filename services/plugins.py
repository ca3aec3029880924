"""The names that plug-ins of providers and credentials are made of, and that stay."""

from services.settings.profiles import OpenAILikeProfile, ReachedProfile
from services.worker.adapters.providers.apis.api import HttpRequest, HttpResponse, Preflight
from services.worker.adapters.providers.apis.connection import Connection
from services.worker.adapters.providers.apis.openai import OpenAIApi
from services.worker.adapters.providers.credentials.credential import Token
from services.worker.adapters.providers.kinds.kind import ProviderKind, SampleReplies, SampleReply
from services.worker.adapters.providers.kinds.openai import OpenAILikeKind
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import (
    Answered,
    CallFacts,
    NoAnswer,
    Refused,
    Rejected,
    Reply,
    Throttled,
    TimedOut,
    Truncated,
    Unavailable,
)
from services.worker.ports.provider import NotReady, Readiness, Ready, Unhealthy

__all__ = [
    "Answered",
    "CallFacts",
    "Connection",
    "HttpRequest",
    "HttpResponse",
    "NoAnswer",
    "NotReady",
    "OpenAIApi",
    "OpenAILikeKind",
    "OpenAILikeProfile",
    "Preflight",
    "Prompt",
    "ProviderKind",
    "ReachedProfile",
    "Readiness",
    "Ready",
    "Refused",
    "Rejected",
    "Reply",
    "SampleReplies",
    "SampleReply",
    "Throttled",
    "TimedOut",
    "Token",
    "Truncated",
    "Unavailable",
    "Unhealthy",
]
