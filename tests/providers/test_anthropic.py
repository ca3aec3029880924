"""Anthropic's API over real HTTP: what it sends, what statuses mean."""

import asyncio
import json
from dataclasses import replace
from typing import Any, Literal

import anthropic
import anthropic.types.shared
import httpx2
import pytest

from services.worker.adapters.providers.apis.anthropic import CACHE
from services.worker.core.attempt.reply import Rejected, Reply, Throttled, Unavailable
from tests.providers.apis import ANTHROPIC
from tests.providers.calls import PROMPT, SCHEMA, SECRET, WIRE
from tests.providers.misbehaving import Misbehaving, Send, answer
from tests.providers.sdk_errors import exception_classes

WHOLE = ANTHROPIC.whole
DOWN = Unavailable(503, ran=True)


def sent(server: Misbehaving) -> Any:
    return json.loads(server.seen[0].body)


async def test_one_call_carries_the_whole_prompt_and_brings_the_whole_answer() -> None:
    reply, server = await ANTHROPIC.ask(WHOLE)

    (seen,) = server.seen
    assert reply == ANTHROPIC.good_reply
    assert (seen.method, seen.path) == ("POST", "/v1/messages")
    assert (seen.headers["authorization"], "x-api-key" in seen.headers) == (
        f"Bearer {SECRET}",
        False,
    )
    assert sent(server) == {
        "model": "m",
        "max_tokens": 77,
        "system": "private system",
        "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}],
        "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
    }


async def test_what_is_unset_is_not_sent_and_what_is_set_is() -> None:
    plain = replace(PROMPT, wire=replace(WIRE, schema=None), max_output_tokens=64_000)

    reply, server = await ANTHROPIC.ask(WHOLE, prompt=plain, temperature=0.0)

    assert reply == ANTHROPIC.good_reply
    assert sorted(sent(server)) == ["max_tokens", "messages", "model", "system", "temperature"]


async def test_the_provider_keeps_a_prompt_only_where_that_is_set() -> None:
    reply, server = await ANTHROPIC.ask(WHOLE, prompt_cache=CACHE)

    assert reply == ANTHROPIC.good_reply
    expected: anthropic.types.CacheControlEphemeralParam = {"type": "ephemeral"}
    assert sent(server)["cache_control"] == expected


async def test_credentials_of_the_environment_are_sent_to_no_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "another key")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "a token")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://elsewhere.invalid")

    _, server = await ANTHROPIC.ask(WHOLE, api_key=None)

    assert "authorization" not in server.seen[0].headers
    assert "x-api-key" not in server.seen[0].headers


def error(kind: str, code: str | None = None, message: str = SECRET) -> dict[str, Any]:
    details = {"details": {"error_code": code}} if code else {}
    return {"type": "error", "error": {"type": kind, "message": message, **details}}


OTHER_CODES: list[tuple[str, Literal["request", "profile"], int, str]] = [
    ("SandboxEgressRestrictedError", "profile", 403, "sandbox_egress_restricted"),
    ("LinkedOrganizationBillingUnavailableError", "profile", 402,
     "linked_organization_billing_unavailable"),
    # Of what we never do: how a body is packed, and another product.
    ("ClaudeCodeVersionTooOldError", "request", 400, "claude_code_version_too_old"),
    ("RequestBodyEncodingInvalidError", "request", 400, "request_body_encoding_invalid"),
    ("RequestBodyEncodingUnsupportedError", "request", 400, "request_body_encoding_unsupported"),
    ("RequestBodyTooLargeAfterDecodingError", "request", 413,
     "request_body_too_large_after_decoding"),
]  # fmt: skip


# Each status with the exception that the SDK makes of it, and the reply that we make of it.
STATUSES: dict[str, tuple[tuple[Send], Reply]] = {
    "BadRequestError": (
        answer(error("invalid_request_error"), 400),
        Rejected("request", 400, "invalid_request_error"),
    ),
    "AuthenticationError": (
        answer(error("authentication_error"), 401),
        Rejected("profile", 401, "authentication_error"),
    ),
    "PaymentRequiredError": (
        answer(error("billing_error"), 402),
        Rejected("profile", 402, "billing_error"),
    ),
    "PermissionDeniedError": (
        answer(error("permission_error"), 403),
        Rejected("profile", 403, "permission_error"),
    ),
    "NotFoundError": (answer(b"<html>", 404), Rejected("profile", 404, None)),
    "RequestTimeoutError": (answer({}, 408), Unavailable(408, ran=True)),
    "ConflictError": (answer({}, 409), Unavailable(409, ran=True)),
    "PreconditionFailedError": (answer({}, 412), Unavailable(412, ran=True)),
    "ContentTooLargeError": (
        answer(error("request_too_large"), 413),
        Rejected("request", 413, "request_too_large"),
    ),
    "UnprocessableEntityError": (answer({}, 422), Rejected("request", 422, None)),
    "RateLimitError": (
        answer(error("rate_limit_error"), 429, {"retry-after": "7"}),
        Throttled(7.0),
    ),
    "RampLimitExceededError": (
        answer(error("rate_limit_error", "ramp_limit_exceeded"), 429, {"retry-after-ms": "1500"}),
        Throttled(1.5),
    ),
    "EnforcedSpendLimitReachedError": (
        answer(error("rate_limit_error", "enforced_spend_limit_reached"), 429),
        Rejected("profile", 429, "enforced_spend_limit_reached"),
    ),
    "ContractSpendLimitReachedError": (
        answer(error("rate_limit_error", "contract_spend_limit_reached"), 429),
        Rejected("profile", 429, "contract_spend_limit_reached"),
    ),
    "LinkedOrganizationSpendLimitReachedError": (
        answer(error("billing_error", "linked_organization_spend_limit_reached"), 402),
        Rejected("profile", 402, "linked_organization_spend_limit_reached"),
    ),
    "RequestHeaderFieldsTooLargeError": (answer({}, 431), Unavailable(431, ran=True)),
    "ClientClosedRequestError": (answer({}, 499), Unavailable(499, ran=True)),
    "InternalServerError": (answer(error("api_error"), 500), Unavailable(500, ran=True)),
    "HTTPNotImplementedError": (answer({}, 501), Unavailable(501, ran=True)),
    "ServiceUnavailableError": (answer({}, 503, {"retry-after": "2"}), Throttled(2.0)),
    "GatewayTimeoutError": (answer(error("timeout_error"), 504), Unavailable(504, ran=True)),
    "OverloadedError": (answer(error("overloaded_error"), 529), Unavailable(529, ran=True)),
    **{
        name: (answer(error("invalid_request_error", code), 400), Rejected("profile", 400, code))
        for name, code in {
            "ClaudeCodeKeyCreatorNotMemberError": "claude_code_key_creator_not_member",
            "CMEKKeyDisabledError": "cmek_key_disabled",
            "CMEKKeyNetworkBlockedError": "cmek_key_network_blocked",
            "OrganizationOnHoldError": "organization_on_hold",
            "OrganizationTypeNotSupportedError": "organization_type_not_supported",
            "ParentOrganizationRequiredError": "parent_organization_required",
        }.items()
    },
    **{
        name: (answer(error("api_error", code), status), Rejected(scope, status, code))
        for name, scope, status, code in OTHER_CODES
    },
    **{
        name: (answer(error("api_error", code), 503), DOWN)
        for name, code in {
            "CMEKContextUnavailableError": "cmek_context_unavailable",
            "CMEKKeyUnreachableError": "cmek_key_unreachable",
        }.items()
    },
    "APIStatusError": (answer({}, 418), Unavailable(418, ran=True)),
}

# Codes of a 400 that SDKs newer than the pinned one know.
NEWER_CODES = {"WorkspaceHumanReviewDisabledError": "workspace_human_review_disabled"}


@pytest.mark.parametrize("code", NEWER_CODES.values())
async def test_a_code_of_a_newer_sdk_is_a_fault_of_the_profile(code: str) -> None:
    reply, _ = await ANTHROPIC.ask(answer(error("invalid_request_error", code), 400))

    assert reply == Rejected("profile", 400, code)


@pytest.mark.parametrize("name", STATUSES)
async def test_a_status_is_one_call_and_its_reply_as_the_sdk_names_it(name: str) -> None:
    script, expected = STATUSES[name]

    reply, server = await ANTHROPIC.ask(script)
    raised = await asyncio.to_thread(raised_by_sdk, script[0].data)

    assert (reply, len(server.seen), raised) == (expected, 1, name)


def raised_by_sdk(response: bytes) -> str:
    """The exception that the SDK makes of a response."""
    head, _, body = response.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    reported = httpx2.Response(int(first.split(" ")[1]), headers=headers, content=body)
    transport = httpx2.MockTransport(lambda _: reported)
    client = anthropic.Anthropic(
        api_key=SECRET, max_retries=0, http_client=httpx2.Client(transport=transport)
    )
    with pytest.raises(anthropic.APIStatusError) as error, client:
        client.messages.create(model="m", max_tokens=1, messages=[])
    return type(error.value).__name__


async def test_every_status_of_the_sdk_has_its_reply() -> None:
    """A new status, or a new code of this API, must be looked at and entered above."""
    kinds = exception_classes(anthropic)
    parse_status = {k for k in kinds.values() if issubclass(k, anthropic.APIStatusError)}
    own = {kind for kind in parse_status if kind in vars(anthropic.types.shared).values()}
    unmapped = {
        kind.__name__
        for kind in parse_status
        if kind.__name__ not in {*STATUSES, *NEWER_CODES}
        and (kind in own or first_known(kind) in {None, "APIStatusError"})
    }

    assert len(parse_status) > 30
    assert STATUSES.keys() <= kinds.keys()
    assert unmapped == set()


def first_known(kind: type[Exception]) -> str | None:
    return next((base.__name__ for base in kind.__mro__ if base.__name__ in STATUSES), None)
