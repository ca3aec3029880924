"""Amazon Bedrock: Converse with a schema, signed requests, regions, and what AWS says of keys."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from answerbus.budget import Usage
from services.settings.profiles import BedrockProfile
from services.worker.adapters.building import connection_of
from services.worker.adapters.providers.apis.bedrock import BedrockApi, parse_error
from services.worker.adapters.providers.apis.connection import AwsKeys, Connection
from services.worker.adapters.providers.apis.sigv4 import signed_headers
from services.worker.adapters.providers.http import HttpProvider
from services.worker.adapters.providers.keyed import KeyedProvider
from services.worker.adapters.providers.kinds.bedrock import BedrockKind
from services.worker.adapters.tariffs import tariff_of
from services.worker.core.attempt.reply import (
    Answered,
    CallFacts,
    NoAnswer,
    Refused,
    Rejected,
    Reply,
    Throttled,
    Truncated,
    Unavailable,
)
from services.worker.ports.provider import NotReady, Provider, Readiness, Ready
from tests.providers.calls import LIMIT_S, PROMPT, SCHEMA, SECRET, StoppedClock
from tests.providers.misbehaving import Script, answer, misbehaving

NOW = datetime(2026, 11, 26, 9, 0, tzinfo=UTC)
MODEL = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"
PATH = "/model/eu.anthropic.claude-sonnet-4-5-20250929-v1%3A0"
KEYS = AwsKeys("AKIDEXAMPLE", "wJalr+/secret", "tok/en+==")
GOOD = {
    "output": {"message": {"role": "assistant", "content": [{"text": "{}"}]}},
    "stopReason": "end_turn",
    "usage": {"inputTokens": 2, "outputTokens": 3, "cacheReadInputTokens": 10},
    "serviceTier": {"type": "flex"},
}


def profile(**table: Any) -> BedrockProfile:
    given = {"provider": "bedrock", "model": MODEL, "region": "eu-central-1", **table}
    return BedrockProfile.model_validate(given)


def provider_at(base_url: str, key: str | AwsKeys = SECRET, **table: Any) -> Provider:
    found = profile(base_url=base_url.removesuffix("/v1"), **table)
    connection = connection_of(found, key if isinstance(key, str) else None)
    if isinstance(key, AwsKeys):
        connection = type(connection)(MODEL, None, 4, found.base_url, credential="aws", signing=key)
    kind = BedrockKind()
    sign = kind.sign(found, connection)
    return HttpProvider(kind.api(found, connection), StoppedClock(), sign=sign)


def parsed(**changes: Any) -> Reply:
    return BedrockApi.parse_response(200, {}, json.dumps({**GOOD, **changes}).encode(), 77)


def test_a_signature_is_that_of_the_makers_sdk() -> None:
    """As botocore 1.44.8 makes it (`SigV4Auth.add_auth`)."""
    host = "bedrock-runtime.eu-central-1.amazonaws.com"
    found = signed_headers(
        KEYS, host, "eu-central-1", "bedrock", "POST", f"{PATH}/converse", b'{"a":1}', NOW
    )

    assert found == {
        "x-amz-date": "20261126T090000Z",
        "x-amz-security-token": "tok/en+==",
        "authorization": (
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261126/eu-central-1/bedrock/aws4_request, "
            "SignedHeaders=host;x-amz-date;x-amz-security-token, "
            "Signature=8bcc951bcbaeb76e14df2993203631f6f1bfd422afdb514c948e1f5b568f3423"
        ),
    }


async def test_a_request_is_converse_with_the_schema_as_text() -> None:
    async with misbehaving(answer(GOOD, headers={"x-amzn-requestid": "req-1"})) as server:
        provider = provider_at(server.base_url, temperature=0.5, service_tier="flex")
        reply = await provider.ask(PROMPT, timeout_s=LIMIT_S)
        await provider.close()

    (seen,) = server.seen
    usage = Usage(input_tokens=12, output_tokens=3, cached_tokens=10)
    assert reply == Answered("{}", CallFacts(None, "req-1", "end_turn", usage, "flex"))
    assert (seen.method, seen.path) == ("POST", f"{PATH}/converse")
    assert seen.headers["authorization"] == f"Bearer {SECRET}"
    schema = {"name": "plan_v1", "schema": json.dumps(SCHEMA, separators=(",", ":"))}
    assert json.loads(seen.body) == {
        "system": [{"text": "private system"}],
        "messages": [
            {"role": "user", "content": [{"text": "q"}]},
            {"role": "assistant", "content": [{"text": "a"}]},
        ],
        "inferenceConfig": {"maxTokens": 77, "temperature": 0.5},
        "outputConfig": {
            "textFormat": {"type": "json_schema", "structure": {"jsonSchema": schema}}
        },
        "serviceTier": {"type": "flex"},
    }


async def test_each_request_is_signed_over_what_is_sent() -> None:
    async with misbehaving(answer(GOOD)) as server:
        provider = provider_at(server.base_url, KEYS)
        await provider.ask(PROMPT, timeout_s=LIMIT_S)
        await provider.preflight()
        await provider.close()

    for seen in server.seen:
        host = seen.headers["host"]
        expected = signed_headers(
            KEYS, host, "eu-central-1", "bedrock", seen.method, seen.path, seen.body,
            StoppedClock().now(),
        )  # fmt: skip
        assert {name: seen.headers[name] for name in expected} == expected
    assert len({seen.headers["authorization"] for seen in server.seen}) == 2


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"stopReason": "max_tokens"}, Truncated),
        ({"stopReason": "model_context_window_exceeded"}, Truncated),
        ({"stopReason": "guardrail_intervened"}, Refused),
        ({"stopReason": "content_filtered"}, Refused),
        ({"stopReason": "tool_use"}, NoAnswer),
        ({"stopReason": "malformed_model_output"}, NoAnswer),
        ({"stopReason": 5}, NoAnswer),
        ({"output": {"message": {"content": [{"reasoningContent": {}}]}}}, NoAnswer),
        ({"output": {"message": {"content": [5, {"text": "a"}, {"text": "b"}]}}}, Answered),
        ({"output": {"message": None}}, Unavailable),
    ],
)
def test_each_stop_is_a_reply(changes: dict[str, Any], expected: type[Reply]) -> None:
    assert isinstance(parsed(**changes), expected)


def said(status: int, kind: str, message: str = "no", **headers: str) -> Reply:
    named = {"x-amzn-errortype": f"{kind}:http://internal.amazon.com/coral/"} if kind else {}
    return parse_error(status, {**named, **headers}, json.dumps({"message": message}).encode(), NOW)


INVALID = "The provided model identifier is invalid."
ON_DEMAND = (
    "Invocation of model ID m with on-demand throughput isn't supported. Retry with a profile"
)
NO_ON_DEMAND = "The provided model doesn't support on-demand throughput."


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (said(403, "ExpiredTokenException"), Rejected("profile", 403, "ExpiredTokenException")),
        (said(400, "RequestExpired"), Rejected("profile", 400, "RequestExpired")),
        (said(400, "NotAuthorized"), Rejected("profile", 400, "NotAuthorized")),
        (said(400, "ValidationException"), Rejected("request", 400, "ValidationException")),
        (
            said(400, "ValidationException", INVALID),
            Rejected("profile", 400, "model_not_in_region"),
        ),
        (
            said(400, "ValidationException", ON_DEMAND),
            Rejected("profile", 400, "model_not_in_region"),
        ),
        (
            said(400, "ValidationException", NO_ON_DEMAND),
            Rejected("profile", 400, "model_not_in_region"),
        ),
        (
            said(400, "ValidationException", f"schema: property '{INVALID}'"),
            Rejected("request", 400, "ValidationException"),
        ),
        (said(429, "ThrottlingException"), Throttled(None)),
        (said(429, "ModelNotReadyException", **{"retry-after": "2"}), Throttled(2.0)),
        (said(424, "ModelErrorException"), Unavailable(424, ran=True)),
        (said(408, "ModelTimeoutException"), Unavailable(408, ran=True)),
        (
            parse_error(400, {}, b'{"__type":"com.amazon#AccessDeniedException"}', NOW),
            Rejected("profile", 400, "AccessDeniedException"),
        ),
    ],
)
def test_an_error_is_read_by_its_type(reply: Reply, expected: Reply) -> None:
    assert reply == expected


async def preflight(script: Script, key: str | AwsKeys = KEYS, **table: Any) -> Readiness:
    async with misbehaving(script) as server:
        provider = provider_at(server.base_url, key, **table)
        found = await provider.preflight()
        await provider.close()
    assert [seen.path for seen in server.seen] == [f"{PATH}/count-tokens"]
    return found


def error(status: int, kind: str, message: str = "no") -> Script:
    return answer({"message": message}, status, {"x-amzn-errortype": kind})


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (answer({"inputTokens": 1}), Ready()),
        (error(400, "ValidationException", "The model doesn't support counting tokens."), Ready()),
        (error(429, "ThrottlingException"), Ready()),
        (error(400, "ValidationException", INVALID), Ready()),  # as for each inference profile
        (
            error(
                403,
                "AccessDeniedException",
                "User: arn:aws:sts::1:assumed-role/r/s is not authorized to perform: "
                "bedrock:CountTokens on resource: arn:aws:bedrock:eu-central-1::foundation-model/m",
            ),
            Ready(),
        ),
        (
            error(403, "AccessDeniedException", "You don't have access to the model"),
            NotReady(
                "the credential `aws` may not call the model: give its role `bedrock:InvokeModel` "
                "for it, and the account access to the model in this region"
            ),
        ),
        (
            error(403, "ExpiredTokenException"),
            NotReady(
                "the credential `aws` has keys that have ended: renew what its identity is made "
                "from"
            ),
        ),
        (
            error(403, "InvalidSignatureException", "Signature expired: 2026"),
            NotReady(
                "the credential `aws` signs with another clock or another secret than AWS knows: "
                "set the clock of this machine"
            ),
        ),
        (
            error(403, "UnrecognizedClientException"),
            NotReady("the credential `aws` has keys that AWS does not know: correct its identity"),
        ),
    ],
)
async def test_what_is_wrong_at_start_is_one_sentence(script: Script, expected: Readiness) -> None:
    assert await preflight(script) == expected


def test_a_model_that_the_region_lacks_is_named_with_its_inference_profile() -> None:
    model = MODEL.removeprefix("eu.")
    asked = BedrockApi(Connection(model, None, 1, signing=KEYS), "eu-central-1").preflight()
    next(asked)

    with pytest.raises(StopIteration) as ended:
        asked.send(said(400, "ValidationException", INVALID))
    assert ended.value.value == NotReady(
        f"the region eu-central-1 has no model {model!r}: set `region`, or `model` to the id of an "
        f"inference profile, such as {MODEL!r}"
    )


class Rotating:
    """Keys of a role, of which the first have ended."""

    def __init__(self) -> None:
        self.keys: list[AwsKeys] = [AwsKeys("A", "old"), AwsKeys("B", "new")]

    async def current(self) -> AwsKeys:
        return self.keys[0]

    async def instead_of(self, refused: str | AwsKeys) -> AwsKeys:
        assert refused == self.keys.pop(0)
        return self.keys[0]

    async def close(self) -> None: ...


async def test_ended_keys_are_looked_for_again_and_the_call_is_made_with_the_next() -> None:
    async with misbehaving(error(403, "ExpiredTokenException"), answer(GOOD)) as server:

        def make(key: str | AwsKeys) -> Provider:
            return provider_at(server.base_url, key)

        provider = KeyedProvider("bedrock", MODEL, Rotating(), make, None, StoppedClock())
        reply = await provider.ask(PROMPT, timeout_s=LIMIT_S)
        await provider.close()

    assert isinstance(reply, Answered)
    users = [seen.headers["authorization"].partition("Credential=")[2][0] for seen in server.seen]
    assert users == ["A", "B"]


def test_prices_are_those_of_the_region_or_of_the_world() -> None:
    regional, everywhere = (
        tariff_of(profile(model=model), NOW) for model in (MODEL, MODEL.replace("eu.", "global."))
    )

    assert regional
    assert everywhere
    ratio = regional.tiers["standard"].rates.input / everywhere.tiers["standard"].rates.input
    assert round(ratio, 3) == 1.1


@pytest.mark.parametrize("region", ["", "eu", "eu-central-1.evil.example/", "EU-CENTRAL-1"])
def test_a_region_is_one(region: str) -> None:
    with pytest.raises(ValueError, match="region"):
        profile(region=region)
