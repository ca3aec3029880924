"""A credential's tokens: renewed before they end, once when refused, named when bad."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import TypeAdapter

from services.settings.installed import UnusablePlugin
from services.settings.profiles import Profile
from services.settings.settings import SetUpError
from services.worker.adapters import backends, building
from services.worker.adapters.building import BackendContext
from services.worker.adapters.clock import SystemClock
from services.worker.adapters.providers.apis.connection import AwsKeys
from services.worker.adapters.providers.credentials import known, renewed
from services.worker.adapters.providers.credentials.claims import fault_of
from services.worker.adapters.providers.credentials.credential import Credential, Token
from services.worker.adapters.providers.keyed import KeyedProvider
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import Answered, CallFacts, Rejected, Reply
from services.worker.ports.provider import NotReady, Provider, Ready, Unhealthy
from tests.plugins.installing import write_plugin
from tests.providers.calls import LIMIT_S, PROMPT
from tests.providers.keyed_server import KeyedServer, keyed_server
from tests.unit.worker.lane.virtual import on_virtual_time, run

NOW = datetime(2026, 11, 26, 8, 0, tzinfo=UTC)
SCOPE = "https://cognitiveservices.azure.com/.default"
ALL = timedelta(hours=1)


def jwt(**claims: Any) -> str:
    head, body = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()
        for part in ({"alg": "none"}, claims)
    )
    return f"{head}.{body}.c2lnbmVk"


def at(moment: datetime) -> int:
    return int(moment.timestamp())


@dataclass
class Issuer:
    """Gives `token-0`, `token-1`, … and may wait or fail."""

    lasts_s: float | None = 3600.0
    given: int = 0
    failing: bool = False
    wait: asyncio.Event | None = None
    audiences: list[str | None] = field(default_factory=list)

    async def __call__(self, audience: str | None) -> Token:
        self.audiences.append(audience)
        if self.wait:
            await self.wait.wait()
        if self.failing:
            raise OSError("secret words")
        self.given += 1
        return Token(f"token-{self.given - 1}", self.lasts_s)


@pytest.fixture
async def server() -> AsyncIterator[KeyedServer]:
    async with keyed_server() as found:
        yield found


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[Credential], None]:
    return lambda credential: monkeypatch.setattr(
        building, "credential_named", lambda _name: credential
    )


@asynccontextmanager
async def provider_at(address: str, **more: Any) -> AsyncIterator[Provider]:
    table = {"provider": "azure", "model": "m", "base_url": address, "credential": "azure", **more}
    profile: Profile = TypeAdapter(Profile).validate_python(table)
    built = backends.build({"p": profile}, SystemClock())
    try:
        yield built["p"].provider
    finally:
        await backends.close(built)


Use = Callable[[Credential], None]


async def test_a_token_is_asked_for_once_with_the_audience_of_its_provider(
    use: Use,
    server: KeyedServer,
) -> None:
    issuer = Issuer()
    use(issuer)
    server.valid = {"token-0"}
    async with provider_at(server.address) as provider:
        replies = await asyncio.gather(
            *(provider.ask(PROMPT, timeout_s=LIMIT_S) for _ in range(50))
        )

    assert all(isinstance(reply, Answered) for reply in replies)
    assert issuer.audiences == [SCOPE]


async def test_a_token_that_changes_under_load_repeats_no_call(
    use: Use,
    server: KeyedServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each token is renewed while calls go on; each call is made once."""
    monkeypatch.setattr(renewed, "AGAIN_AFTER_S", 0.0)
    issuer = Issuer(lasts_s=0.05)
    use(issuer)
    server.valid = {f"token-{number}" for number in range(1_000)}
    async with provider_at(server.address) as provider:
        replies = []
        for _ in range(40):
            replies += await asyncio.gather(
                *(provider.ask(PROMPT, timeout_s=LIMIT_S) for _ in range(10))
            )
            await asyncio.sleep(0.005)

    assert all(isinstance(reply, Answered) for reply in replies)
    assert len(server.seen) == len(replies) == 400
    assert issuer.given > 2


async def test_calls_go_on_with_the_token_that_holds_while_its_issuer_is_away(
    use: Use,
    server: KeyedServer,
) -> None:
    issuer = Issuer(lasts_s=0.2)
    use(issuer)
    server.valid = {"token-0"}
    async with provider_at(server.address) as provider:
        await provider.ask(PROMPT, timeout_s=LIMIT_S)
        issuer.failing = True
        await asyncio.sleep(0.12)  # beyond half of its life
        reply = await provider.ask(PROMPT, timeout_s=LIMIT_S)

    assert isinstance(reply, Answered)
    assert len(issuer.audiences) == 2


async def test_a_refused_token_is_renewed_once_and_the_call_made_again(
    use: Use,
    server: KeyedServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(renewed, "AGAIN_AFTER_S", 0.0)
    use(Issuer())
    server.valid = {"token-1"}
    async with provider_at(server.address) as provider:
        reply = await provider.ask(PROMPT, timeout_s=LIMIT_S)
        server.valid = set()
        refused = await provider.ask(PROMPT, timeout_s=LIMIT_S)

    assert isinstance(reply, Answered)
    assert server.seen == ["token-0", "token-1", "token-1", "token-2"]
    assert isinstance(refused, Rejected)
    assert refused.scope == "profile"


async def test_many_refused_calls_ask_the_issuer_once(
    use: Use,
    server: KeyedServer,
) -> None:
    """Within ten seconds there is no other token."""
    issuer = Issuer()
    use(issuer)
    server.valid = set()
    async with provider_at(server.address) as provider:
        await asyncio.gather(*(provider.ask(PROMPT, timeout_s=LIMIT_S) for _ in range(50)))

    assert issuer.given == 1
    assert len(server.seen) == 50


@pytest.mark.parametrize("lasts_s", [0, -3600, 10**400], ids=["now", "long ago", "never"])
async def test_a_token_that_has_ended_by_our_clock_is_used_and_not_asked_for_at_each_call(
    use: Use, server: KeyedServer, lasts_s: float
) -> None:
    """Here or at its issuer a clock is wrong; only its provider knows whether it holds."""
    issuer = Issuer(lasts_s)
    use(issuer)
    server.valid = {"token-0"}
    async with provider_at(server.address) as provider:
        replies = [await provider.ask(PROMPT, timeout_s=LIMIT_S) for _ in range(30)]

    assert all(isinstance(reply, Answered) for reply in replies)
    assert issuer.given == 1


async def gives_number(_audience: str | None) -> Any:
    return 5


async def gives_line_break(_audience: str | None) -> Token:
    return Token("to\nken")


async def gives_no_number(_audience: str | None) -> Token:
    return Token("token", float("nan"))


async def gives_keys_with_line_break(_audience: str | None) -> Token:
    return Token(AwsKeys("AKIA\n", "secret"))


async def gives_words(_audience: str | None) -> Any:
    return Token("key", cast("float", "3600"))


async def never_ends(_audience: str | None) -> Token:
    await asyncio.Event().wait()
    raise AssertionError


@pytest.mark.parametrize(
    ("credential", "fault"),
    [
        (Issuer(failing=True), "gave no token (OSError)"),
        (gives_number, "gave something that is not a token"),
        (gives_line_break, "gave something that is not a token"),
        (gives_keys_with_line_break, "gave something that is not a token"),
        (gives_no_number, "gave something that is not a token"),
        (gives_words, "gave something that is not a token"),
        (never_ends, "gave no token in 0.1 s"),
    ],
    ids=["fails", "no token", "line break", "keys with a line break", "NaN", "no seconds", "hangs"],
)
async def test_a_credential_without_a_token_makes_its_profile_unhealthy(
    credential: Credential, fault: str, use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No call is made and none is counted, so that no request ends for it."""
    monkeypatch.setattr(renewed, "TOKEN_S_MAX", 0.1)
    use(credential)
    async with provider_at("http://127.0.0.1:1/v1") as provider:
        readiness = await provider.preflight()
        reply = await provider.ask(PROMPT, timeout_s=LIMIT_S)

    assert readiness == Unhealthy(
        f"the credential `azure` {fault}: correct what its identity is made from"
    )
    assert reply == Rejected("profile", 401, "no_token")


class NotingProvider:
    """Notes when it was asked, in seconds from the start, and how long it was given."""

    name, model = "azure", "m"

    def __init__(self, refusals: int = 0) -> None:
        self.asked: list[tuple[float, float]] = []
        self._refusals = refusals

    async def ask(self, _prompt: Prompt, *, timeout_s: float) -> Reply:
        self.asked.append((asyncio.get_running_loop().time(), timeout_s))
        is_refused = len(self.asked) <= self._refusals
        return Rejected("profile", 401, None) if is_refused else Answered("1", CallFacts())

    async def preflight(self) -> Ready:
        return Ready()

    async def close(self) -> None: ...


@pytest.mark.parametrize(
    ("token_s", "timeout_s", "permit_s", "asked"),
    [
        (6.0, 3.0, None, []),
        (3.0, 3.0, None, []),
        (6.0, 30.0, 5.0, []),
        (2.0, 30.0, 5.0, [(2.0, 28.0)]),
        (6.0, 30.0, None, [(6.0, 24.0)]),
    ],
    ids=["no time", "just none", "permit over", "in time", "without a permit"],
)
@on_virtual_time
async def test_a_token_is_waited_for_within_the_call_and_its_permit(
    token_s: float, timeout_s: float, permit_s: float | None, asked: list[tuple[float, float]]
) -> None:
    """What comes too late costs nothing, and the next call has its token."""

    async def slow(_audience: str | None) -> Token:
        await asyncio.sleep(token_s)
        return Token("token-0")

    began, inner = asyncio.get_running_loop().time(), NotingProvider()
    keys = renewed.RenewedToken("azure", slow, None)
    provider = KeyedProvider("azure", "m", keys, lambda _key: inner, None, SystemClock())
    permit = None if permit_s is None else began + permit_s
    reply = await provider.ask(replace(PROMPT, begins_by=permit), timeout_s=timeout_s)
    found = [(at_s - began, given_s) for at_s, given_s in inner.asked]
    assert found == asked
    assert isinstance(reply, Answered) or reply == Rejected("profile", 401, "no_token")
    await asyncio.sleep(token_s)
    assert isinstance(await provider.ask(PROMPT, timeout_s=1.0), Answered)


def test_another_token_after_a_refusal_is_waited_for_within_the_permit() -> None:
    async def slow(_audience: str | None) -> Token:
        await asyncio.sleep(6.0 * given)
        return Token(f"token-{given}")

    given = 0

    async def main() -> None:
        nonlocal given
        inner = NotingProvider()
        keys = renewed.RenewedToken("azure", slow, None)
        provider = KeyedProvider("azure", "m", keys, lambda _key: inner, None, SystemClock())
        await provider.ask(PROMPT, timeout_s=1.0)
        await asyncio.sleep(renewed.AGAIN_AFTER_S)
        given, inner._refusals = 1, len(inner.asked) + 1
        permit = asyncio.get_running_loop().time() + 5.0
        reply = await provider.ask(replace(PROMPT, begins_by=permit), timeout_s=30.0)
        assert reply == Rejected("profile", 401, None)
        assert len(inner.asked) == 2

    run(main())


@pytest.mark.parametrize(
    ("claims", "fault"),
    [
        ({"aud": "https://cognitiveservices.azure.com", "exp": at(NOW + ALL)}, None),
        ({"aud": "https://cognitiveservices.azure.com/"}, None),
        ({"aud": "2ff814a6-3304-4ab8-85cb-cd0e6f879c1d"}, None),  # an application's id
        (
            {"aud": "https://management.azure.com"},
            f"is for 'https://management.azure.com' and not for {SCOPE!r}: set `audience`",
        ),
        (
            {"exp": at(NOW - ALL)},
            "ended at 2026-11-26 07:00:00 UTC, and here it is 08:00:00: renew it",
        ),
        (
            {"nbf": at(NOW + ALL), "exp": at(NOW + 2 * ALL)},
            "holds from 09:00:00 UTC on, and here it is 08:00:00: set the clock",
        ),
        ({"nbf": at(NOW + timedelta(minutes=4))}, None),
        ({"exp": True, "nbf": "x", "aud": [5, None]}, None),
        ({"exp": 10**30}, None),
    ],
)
def test_what_a_token_says_of_itself_is_one_sentence(
    claims: dict[str, Any], fault: str | None
) -> None:
    assert fault_of(jwt(**claims), SCOPE, NOW) == fault


@pytest.mark.parametrize(
    "token", ["", "opaque", "a.b.c", "a.%%%.c", f"a.{'W' * 90_000}.c", "a.W10.c"]
)
def test_a_token_that_is_no_jwt_says_nothing(token: str) -> None:
    assert fault_of(token, SCOPE, NOW) is None


async def test_a_token_for_another_audience_ends_the_start(use: Use) -> None:
    async def of_other(_audience: str | None) -> Token:
        return Token(jwt(aud="https://management.azure.com"))

    use(of_other)
    async with provider_at("http://127.0.0.1:1/v1") as provider:
        readiness = await provider.preflight()

    assert readiness == NotReady(
        f"the token is for 'https://management.azure.com' and not for {SCOPE!r}: set `audience`"
    )


async def test_tokens_are_masked_in_what_a_server_echoes(
    use: Use,
    server: KeyedServer,
) -> None:
    async def long_token(_audience: str | None) -> Token:
        return Token("a-token-of-some-length-0123456789")

    use(long_token)
    server.valid = {"a-token-of-some-length-0123456789"}
    context = BackendContext(SystemClock())
    table = {"provider": "openai", "model": "m", "base_url": server.address, "credential": "sso"}
    profile: Profile = TypeAdapter(Profile).validate_python(table)
    built, _ = await backends.started({"p": profile}, context)
    reply = await built["p"].provider.ask(PROMPT, timeout_s=LIMIT_S)
    await backends.close(built)

    assert isinstance(reply, Answered)
    assert reply.content == "***"  # the server answers with the token
    assert context.mask("a-token-of-some-length-0123456789") == "***"


def test_keys_that_sign_are_secrets_too() -> None:
    token = Token(AwsKeys("AKIA", "secret", "session"))

    assert token.texts == ("secret", "session")
    assert "secret" not in repr(token)
    assert "session" not in repr(token.key)


def test_a_package_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "find_spec", lambda _name: None)

    with pytest.raises(UnusablePlugin) as raised:
        known.credential_named("aws")

    assert str(raised.value) == (
        "the credential 'aws' needs a package that is not installed: "
        "`pip install answerbus-services[aws]`"
    )


def test_a_credential_of_a_plugin_is_loaded_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    source = "async def token(audience):\n    return None\n"
    write_plugin(tmp_path, "acme-sso", "sso = acme_sso:token", source, known.GROUP)

    assert callable(known.credential_named("sso"))
    with pytest.raises(UnusablePlugin, match="there are: sso"):
        known.credential_named("other")


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ({"api_key_env": "KEY"}, "a profile has a key or a `credential`"),
        ({"api_key_file": "/key"}, "a profile has a key or a `credential`"),
        ({"credential": None, "audience": "x"}, "`audience` is for the tokens of a `credential`"),
    ],
)
def test_a_profile_has_one_way_to_say_who_it_is(more: dict[str, Any], fault: str) -> None:
    table = {"provider": "azure", "model": "m", "resource": "r-1", "credential": "azure", **more}

    with pytest.raises(ValueError, match=fault):
        TypeAdapter[Profile](Profile).validate_python(table)


async def test_an_unknown_credential_ends_the_start() -> None:
    table = {"provider": "azure", "model": "m", "resource": "r-1", "credential": "none-such"}
    profile: Profile = TypeAdapter(Profile).validate_python(table)

    with pytest.raises(SetUpError, match="no installed distribution offers the credential"):
        backends.build({"p": profile}, SystemClock())


async def test_a_good_token_is_ready(use: Use, server: KeyedServer) -> None:
    use(Issuer())
    server.valid = {"token-0"}
    async with provider_at(server.address) as provider:
        assert await provider.preflight() == Ready()
        server.valid = set()
        assert await provider.preflight() == NotReady(
            f"{server.address} refuses the token of the credential `azure`: correct `audience`, "
            "or give its identity the right to call models"
        )
