"""Issuers that misbehave, and those who pretend to come from one: one sentence, and no way in."""

import asyncio
import hmac
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from aiohttp import web
from aiohttp.test_utils import get_unused_port_socket
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from services.console.guard import COOKIE
from services.console.oidc import issuer, signing_in
from services.console.oidc.fetching import BYTES_MAX
from services.console.oidc.issuer import PATH
from tests.unit.console.issuer import FakeIssuer, public_key, signed
from tests.unit.console.test_sign_in import door, query_of, refusal

pytestmark = pytest.mark.wide  # many cases, each with two servers

Claims = dict[str, Any]
PRIVATE = json.loads(
    RSAAlgorithm.to_jwk(rsa.generate_private_key(public_exponent=65_537, key_size=2_048))
)
DAY_S = 86_400


def said(**changes: Any) -> Callable[[Claims], object]:
    return lambda claims: claims.update(changes)


def without(name: str) -> Callable[[Claims], object]:
    return lambda claims: claims.pop(name)


def moved(name: str, by_s: int) -> Callable[[Claims], object]:
    return lambda claims: claims.update({name: claims["iat"] + by_s})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (said(iss="https://elsewhere.example"), "names another issuer"),
        (without("iss"), "does not say `iss`"),
        (said(iss=["a"]), "names another issuer"),
        (said(aud="another-client"), "was made for another client"),
        (said(aud=[]), "does not say `aud`"),
        (said(aud={"a": 1}), "was made for another client"),
        (said(aud=["answerbus-console", "other"]), "was made for another client"),
        (said(azp="other"), "was made for another client"),
        (moved("exp", -DAY_S), "has expired: compare the clocks"),
        (moved("exp", -61), "has expired: compare the clocks"),
        (said(exp="soon"), "cannot be read"),
        (said(exp=float("nan")), "cannot be read"),
        (said(exp=float("inf")), "cannot be read"),
        (without("exp"), "does not say `exp`"),
        (moved("iat", DAY_S), "is of a time to come"),
        (moved("nbf", DAY_S), "is of a time to come"),
        (without("iat"), "does not say `iat`"),
        (said(nonce="another"), "was made for another sign-in"),
        (said(nonce=None), "does not say `nonce`"),
        (said(nonce=17), "was made for another sign-in"),
        (said(nonce="\udcff"), "was made for another sign-in"),
        (without("sub"), "does not say `sub`"),
        (said(sub=17), "cannot be read"),
        (said(preferred_username=None), "gives no name"),
        (said(preferred_username=""), "gives no name"),
        (said(preferred_username={"a": 1}), "gives no name"),
        (said(preferred_username="a\u202eb"), "gives no name"),
        (said(preferred_username="a\nb"), "gives no name"),
        (said(preferred_username="x" * 201), "gives no name"),
        (said(preferred_username="Operator"), "is the name of a token here"),
        (said(groups=[]), "has no role here"),
        (without("groups"), "has no role here"),
        (said(groups={"bus-operators": True}), "has no role here"),
        (said(groups=[["bus-operators"], 1, None]), "has no role here"),
        (said(groups="bus-operators staff"), "has no role here"),
    ],
)
async def test_what_a_token_must_not_say(
    tmp_path: Path, change: Callable[[Claims], object], sentence: str
) -> None:
    async with door(tmp_path) as at:
        at.issuer.change_claims = change

        assert sentence in await refusal(await at.sign_in())


@pytest.mark.parametrize(
    "change", [moved("exp", -50), moved("nbf", 50), said(azp="answerbus-console")]
)
async def test_clocks_may_differ_a_little(
    tmp_path: Path, change: Callable[[Claims], object]
) -> None:
    async with door(tmp_path) as at:
        at.issuer.change_claims = change

        assert (await at.sign_in()).status == 200


def encoded(part: Claims) -> str:
    return jwt.utils.base64url_encode(json.dumps(part).encode()).decode()


def unsigned(_: FakeIssuer, claims: Claims, header: Claims) -> str:
    return f"{encoded(header | {'alg': 'none'})}.{encoded(claims)}."


def by_the_public_key(issuer: FakeIssuer, claims: Claims, header: Claims) -> str:
    """What is published is taken for the secret of an HMAC."""
    message = f"{encoded(header | {'alg': 'HS256'})}.{encoded(claims)}"
    published = json.dumps(issuer.keys()["keys"][1]).encode()
    signature = hmac.digest(published, message.encode(), "sha256")
    return f"{message}.{jwt.utils.base64url_encode(signature).decode()}"


def by_a_strangers_key(_: FakeIssuer, claims: Claims, header: Claims) -> str:
    return signed(claims, header, 1)


def with_its_own_key(_: FakeIssuer, claims: Claims, header: Claims) -> str:
    return signed(claims, header | {"jwk": public_key(1), "jku": "http://x"}, 1)


def changed_afterwards(_: FakeIssuer, claims: Claims, header: Claims) -> str:
    head, _body, signature = signed(claims, header).split(".")
    body = signed(claims | {"sub": "1"}, header, 1).split(".")[1]
    return ".".join((head, body, signature))


TOKENS: dict[str, tuple[Callable[[FakeIssuer, Claims, Claims], str], str]] = {
    "alg none": (unsigned, "is signed by `none`, which is not accepted"),
    "alg NONE": (
        lambda _, claims, header: f"{encoded(header | {'alg': 'NONE'})}.{encoded(claims)}.",
        "is signed by `NONE`, which is not accepted",
    ),
    "HMAC by the public key": (by_the_public_key, "is signed by `HS256`"),
    "another's key": (by_a_strangers_key, "has a wrong signature"),
    "a key of its own": (with_its_own_key, "has a wrong signature"),
    "changed": (changed_afterwards, "has a wrong signature"),
    "no kid that is known": (
        lambda _, claims, __: signed(claims, {"kid": "key-9"}),
        "with a key that the issuer does not publish",
    ),
    "a critical header": (
        lambda _, claims, header: signed(claims, header | {"crit": ["exp"]}),
        "cannot be read",
    ),
    "no token": (lambda *_: "x", "cannot be read"),
    "nothing": (lambda *_: "", "cannot be read"),
    "deep": (lambda *_: jwt.utils.base64url_encode(b"[" * 30_000).decode() + ".e30.e30", "cannot"),
    "large": (lambda *_: "x" * 100_000, "is larger than 64 KiB"),
    "dots": (lambda *_: "." * 1_000, "cannot be read"),
}


@pytest.mark.parametrize("name", TOKENS)
async def test_what_a_token_must_not_be(tmp_path: Path, name: str) -> None:
    forge, sentence = TOKENS[name]
    async with door(tmp_path) as at:
        at.issuer.token_for = forge

        assert sentence.lower() in (await refusal(await at.sign_in())).lower()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda found: found.update(keys=[]), "publishes no public key"),
        (lambda found: found.update(keys={}), "publishes no keys"),
        (lambda found: found.update(keys=[1, None, {"kty": []}]), "publishes no public key"),
        (lambda found: found["keys"][1].update(use="enc"), "does not publish"),
        (lambda found: found["keys"][1].update(alg="ES256"), "does not publish"),
        (lambda found: found["keys"][1].update(kty="oct", k="AAAA"), "publishes no public key"),
        (lambda found: found["keys"][1].update(PRIVATE), "publishes no public key"),
        (lambda found: found["keys"][1].update(d="AQAB"), "publishes no public key"),
        (lambda found: found["keys"][1].update(e="A" * 1_000), "publishes no public key"),
        (lambda found: found["keys"][1].update(n="_" * 100_000), "publishes no public key"),
        (lambda found: found.update(keys=[{"kty": "RSA"}] * 10_000), "does not publish"),
        (lambda found: found.update(keys=[{"kty": "EC", "crv": "none"}]), "does not publish"),
        (lambda found: found["keys"][1].update(kty="EC", crv="P-256", x="AA", y="AA"), "wrong"),
        (lambda found: found["keys"][1].update(kty="OKP", crv="Ed448", x="AA"), "wrong"),
        (lambda found: found.update(keys="x" * 1024 * 1024), "more than 256 KiB"),
        (lambda found: found["keys"][1].update(n="AA"), "wrong signature"),
        (lambda found: found["keys"][1].update(n=1, e=None), "publishes no public key"),
    ],
)
async def test_keys_that_are_none(
    tmp_path: Path, change: Callable[[Claims], object], sentence: str
) -> None:
    async with door(tmp_path) as at:
        at.issuer.change_keys = change

        assert sentence in await refusal(await at.sign_in())


async def test_a_key_that_is_too_short_opens_nothing(tmp_path: Path) -> None:
    weak_key = rsa.generate_private_key(public_exponent=65_537, key_size=1_024)
    public = json.loads(RSAAlgorithm.to_jwk(weak_key.public_key()))
    weak = jwt.PyJWT(options={"enforce_minimum_key_length": False})

    def by_the_weak_key(_: FakeIssuer, claims: Claims, header: Claims) -> str:
        with pytest.warns(jwt.InsecureKeyLengthWarning):
            return weak.encode(claims, weak_key, "RS256", headers=header)

    async with door(tmp_path) as at:
        at.issuer.change_keys = lambda found: found["keys"][1].update(public)
        at.issuer.token_for = by_the_weak_key

        assert "wrong signature" in await refusal(await at.sign_in())


BROKEN = {
    "an error": (web.Response(status=500, text="<html>"), "answered 500"),
    "elsewhere": (
        web.Response(status=302, headers={"Location": "http://169.254.169.254/"}),
        "answered 302",
    ),
    "no JSON": (web.Response(text="<html>"), "sent no JSON object"),
    "a list": (web.json_response([1]), "sent no JSON object"),
    "empty": (web.Response(), "sent no JSON object"),
    "oversized": (web.Response(text=" " * (BYTES_MAX + 1)), "sent more than 256 KiB"),
    "deep": (web.Response(text="[" * 200_000), "sent no JSON object"),
    "no such code": (
        web.json_response({"error": "invalid_grant"}, status=400),
        "answered 400 (invalid_grant)",
    ),
    "an error to be shown": (
        web.json_response({"error": "<script>", "error_description": "ask x"}, status=400),
        "answered 400: try again",
    ),
}


@pytest.mark.parametrize("path", ["/token", "/keys", PATH])
@pytest.mark.parametrize("name", BROKEN)
async def test_an_issuer_that_is_broken_is_one_sentence_and_works_again_afterwards(
    tmp_path: Path, path: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, sentence = BROKEN[name]
    monkeypatch.setattr(issuer, "FAILED_S", 0.0)
    async with door(tmp_path) as at:
        at.issuer.answers[path] = answer
        begun = await at.here.get("/login/issuer")
        response = begun if path == PATH else await at.sign_in()

        assert sentence in await refusal(response)
        del at.issuer.answers[path]
        assert (await at.sign_in()).status == 200


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (said(issuer="https://elsewhere.example"), "has another name than `console.oidc.issuer`"),
        (lambda found: found.update(issuer=found["issuer"] + "/"), "they differ in the last /"),
        (said(token_endpoint="http://elsewhere.example/token"), "no https address as `token_"),
        (said(authorization_endpoint="javascript:alert(1)"), "as `authorization_endpoint`"),
        (said(authorization_endpoint="https://a.example/\r\nX: y"), "as `authorization_endpoint`"),
        (said(jwks_uri=["https://a.example"]), "no https address as `jwks_uri`"),
        (said(jwks_uri="file:///etc/passwd"), "no https address as `jwks_uri`"),
        (said(jwks_uri="https://[::1"), "no https address as `jwks_uri`"),
        (without("token_endpoint"), "no https address as `token_endpoint`"),
    ],
)
async def test_an_issuer_that_describes_itself_wrongly(
    tmp_path: Path, change: Callable[[Claims], object], sentence: str
) -> None:
    async with door(tmp_path) as at:
        at.issuer.change_metadata = change

        assert sentence in await refusal(await at.here.get("/login/issuer"))


async def test_an_issuer_that_is_away_leaves_the_tokens(tmp_path: Path) -> None:
    with get_unused_port_socket("127.0.0.1") as away:  # which never listens
        async with door(tmp_path, issuer=f"http://127.0.0.1:{away.getsockname()[1]}") as at:
            sentence = await refusal(await at.here.get("/login/issuer"))

            assert sentence.startswith("The issuer does not answer (ClientConnectorError)")
            assert 'name="token"' in await (await at.here.get("/login")).text()


@pytest.mark.parametrize("beginning", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"])
async def test_an_issuer_that_says_nothing_or_too_little_is_waited_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beginning: bytes
) -> None:
    monkeypatch.setattr(signing_in, "EXCHANGE_S_MAX", 0.2)

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(beginning)
        await reader.read()  # until the other side gives up
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, door(tmp_path, issuer=f"http://127.0.0.1:{port}") as at:
        assert "did not answer within" in await refusal(await at.here.get("/login/issuer"))


NOT_BEGUN = "was not begun in this browser"


async def test_a_sign_in_ends_only_in_the_browser_that_began_it(tmp_path: Path) -> None:
    """The address that comes back is worth nothing without the cookie of the browser that left."""
    async with door(tmp_path) as at:
        address, cookie = await at.leave()
        _, other = await at.leave()
        right = at.issuer.authorize(query_of(address))
        state = query_of(right)["state"]
        asked = list(at.issuer.asked)

        for wrong in ("", other, cookie[:-1], "x", "1.x.y", "%ff"):
            assert NOT_BEGUN in await refusal(await at.back(right, wrong))
        back = right.partition("?")[0]
        for query in ("", "?code=code-0", "?code=code-0&state=", f"?state={state}x&code=code-0"):
            assert NOT_BEGUN in await refusal(await at.back(back + query, cookie))
        assert at.issuer.asked == asked, "the issuer is not even asked"

        assert (await at.back(right, cookie)).status == 200


async def test_an_address_that_came_back_is_spent(tmp_path: Path) -> None:
    async with door(tmp_path) as at:
        address, cookie = await at.leave()
        right = at.issuer.authorize(query_of(address))
        assert (await at.back(right, cookie)).status == 200

        assert NOT_BEGUN in await refusal(await at.back(right, cookie))


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ("&error=access_denied", "did not let you in (access_denied)"),
        ("&error=%3Cscript%3E&error_description=x", "did not let you in: try again"),
        ("&iss=https%3A%2F%2Felsewhere.example", "is of another issuer"),
        ("&iss=a&iss=b", "is of another issuer"),
        ("&code=another", "did not let you in"),
    ],
)
async def test_an_answer_that_says_something_else(tmp_path: Path, more: str, sentence: str) -> None:
    async with door(tmp_path) as at:
        address, cookie = await at.leave()
        right = at.issuer.authorize(query_of(address)) + more

        assert sentence in await refusal(await at.back(right, cookie))


async def test_an_issuer_that_names_itself_must_do_so(tmp_path: Path) -> None:
    async with door(tmp_path) as at:
        at.issuer.change_metadata = said(authorization_response_iss_parameter_supported=True)
        address, cookie = await at.leave()
        right = at.issuer.authorize(query_of(address))
        assert "is of another issuer" in await refusal(await at.back(right, cookie))

        address, cookie = await at.leave()
        named = f"{at.issuer.authorize(query_of(address))}&iss={at.issuer.url}"
        assert (await at.back(named, cookie)).status == 200


async def test_who_comes_back_without_having_left_uses_up_no_tries(tmp_path: Path) -> None:
    async with door(tmp_path) as at:
        statuses = [(await at.back(f"{at.here.url}/login/callback", "")).status for _ in range(10)]
        assert set(statuses) == {403}

        response = await at.sign_in()

        assert response.status == 200, "who is right is let in at once"
        assert COOKIE in response.cookies


async def test_an_issuer_that_fails_is_not_asked_for_each_who_comes(tmp_path: Path) -> None:
    async with door(tmp_path) as at:
        at.issuer.change_metadata = lambda found: found.clear()
        answers = [await at.here.get("/login/issuer") for _ in range(20)]

        assert {answer.status for answer in answers} == {502}
        assert at.issuer.asked == [PATH]
