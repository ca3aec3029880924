"""The statuses that OpenAI's SDK has exceptions for: each is a Reply."""

import asyncio

import httpx2
import openai
import pytest

from services.worker.core.attempt.reply import Rejected, Reply, Throttled, Unavailable
from tests.providers.misbehaving import answer
from tests.providers.openai_calls import SECRET, ask
from tests.providers.sdk_errors import exception_classes

STATUSES: dict[str, tuple[int, Reply]] = {
    "BadRequestError": (400, Rejected("request", 400, None)),
    "AuthenticationError": (401, Rejected("profile", 401, None)),
    "PermissionDeniedError": (403, Rejected("profile", 403, None)),
    "NotFoundError": (404, Rejected("profile", 404, None)),
    "ConflictError": (409, Unavailable(409, ran=True)),
    "UnprocessableEntityError": (422, Rejected("request", 422, None)),
    "RateLimitError": (429, Throttled(None)),
    "InternalServerError": (500, Unavailable(500, ran=True)),
    "APIStatusError": (418, Unavailable(418, ran=True)),
}
FOREIGN = {"OAuthError"}  # of a token exchange, which nothing here does


@pytest.mark.parametrize("name", STATUSES)
async def test_a_status_is_one_call_and_its_reply_as_the_sdk_names_it(name: str) -> None:
    status, expected = STATUSES[name]

    reply, server = await ask(answer({}, status))
    raised = await asyncio.to_thread(raised_by_sdk, status)

    assert (reply, len(server.seen), raised) == (expected, 1, name)


def raised_by_sdk(status: int) -> str:
    """The exception that the SDK makes of a status."""
    transport = httpx2.MockTransport(lambda _: httpx2.Response(status, json={}))
    client = openai.OpenAI(
        api_key=SECRET, max_retries=0, http_client=httpx2.Client(transport=transport)
    )
    with pytest.raises(openai.APIStatusError) as error, client:
        client.chat.completions.create(model="m", messages=[])
    return type(error.value).__name__


def test_every_status_of_the_sdk_has_its_reply() -> None:
    """A class that a new version brings must be looked at, and entered above."""
    kinds = exception_classes(openai)
    parse_status = {name for name, kind in kinds.items() if issubclass(kind, openai.APIStatusError)}

    assert parse_status == STATUSES.keys() | FOREIGN
