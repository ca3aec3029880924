"""An issuer of OpenID Connect over real HTTP, which can be told to misbehave."""

import base64
import hashlib
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from html import escape
from typing import Any, Literal
from urllib.parse import parse_qs, urlencode

import jwt
from aiohttp import web
from aiohttp.test_utils import TestServer, get_unused_port_socket
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

CLIENT, SECRET = "answerbus-console", "the-secret:of/the client"
Change = Callable[[dict[str, Any]], object]
_RSA = [rsa.generate_private_key(public_exponent=65_537, key_size=2_048) for _ in range(2)]


def unchanged(_: dict[str, Any]) -> None:
    pass


def signed(claims: Mapping[str, Any], header: dict[str, Any], key_number: int = 0) -> str:
    """With any claims: `jwt.encode` would refuse some."""
    return jwt.PyJWS().encode(json.dumps(claims).encode(), _RSA[key_number], "RS256", header)


def public_key(number: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RSAAlgorithm.to_jwk(_RSA[number].public_key()))
    return found


@dataclass
class FakeIssuer:
    """`change_…` and `answers` make it misbehave; `asked` are the paths that it was asked for."""

    url: str
    person: dict[str, Any] = field(
        default_factory=lambda: {
            "sub": "4711",
            "preferred_username": "ada@acme.example",
            "groups": ["staff", "bus-operators"],
        }
    )
    change_metadata: Change = unchanged
    change_claims: Change = unchanged
    change_header: Change = unchanged
    change_keys: Change = unchanged
    token_for: Callable[["FakeIssuer", dict[str, Any], dict[str, Any]], str] | None = None
    answers: dict[str, web.Response] = field(default_factory=dict)  # in place of its own, by path
    key_number: int = 0
    known_by: Literal["header", "form", "nothing"] = "header"  # how it knows its client
    asks_first: bool = False  # who that is, on a page of its own
    asked: list[str] = field(default_factory=list)
    _codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def metadata(self) -> dict[str, Any]:
        found = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize?tenant=acme",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "end_session_endpoint": f"{self.url}/end",
        }
        self.change_metadata(found)
        return found

    def keys(self) -> dict[str, Any]:
        key = public_key(self.key_number) | {"kid": f"key-{self.key_number}"}
        found = {"keys": [{"kty": "later", "kid": "x"}, key | {"use": "sig"}]}
        self.change_keys(found)
        return found

    def authorize(self, query: Mapping[str, str]) -> str:
        """Where it sends a browser that has logged in here: back, with a code."""
        assert query["client_id"] == CLIENT
        assert query["code_challenge_method"] == "S256"
        assert query["scope"] == "openid profile email"
        code = f"code-{len(self._codes)}"
        self._codes[code] = dict(query)
        back = {"code": code, "state": query["state"]}
        return f"{query['redirect_uri']}?{urlencode(back)}"

    def id_token(self, nonce: str) -> str:
        now_s = int(time.time())
        claims = {
            "iss": self.url,
            "aud": CLIENT,
            "iat": now_s,
            "exp": now_s + 300,
            "nonce": nonce,
            **self.person,
        }
        header = {"alg": "RS256", "kid": f"key-{self.key_number}"}
        self.change_claims(claims)
        self.change_header(header)
        if self.token_for:
            return self.token_for(self, claims, header)
        return signed(claims, header, self.key_number)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path)
        if request.path in self.answers:
            given = self.answers[request.path]
            return web.Response(status=given.status, body=given.body, headers=given.headers)
        match request.path:
            case "/authorize" if self.asks_first:
                there = escape(self.authorize(request.query))
                return web.Response(
                    text=f'<a href="{there}">I am Ada</a>', content_type="text/html"
                )
            case "/authorize":
                raise web.HTTPSeeOther(self.authorize(request.query))
            case "/token":
                return self._token(await request.text(), request.headers.get("Authorization", ""))
            case "/keys":
                return web.json_response(self.keys())
            case "/end":
                return web.Response(text="You have left.")
            case _:
                return web.json_response(self.metadata())

    def _token(self, body: str, authorization: str) -> web.Response:
        form = {name: values[0] for name, values in parse_qs(body, strict_parsing=True).items()}
        pair = f"{CLIENT}:the-secret%3Aof%2Fthe+client"  # as RFC 6749, 2.3.1 has it
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        began = self._codes.pop(form["code"], {})
        basic = f"Basic {base64.b64encode(pair.encode()).decode()}"
        given = (authorization, form.get("client_id"), form.get("client_secret"))
        is_right = (
            given
            == {
                "header": (basic, None, None),
                "form": ("", CLIENT, SECRET),
                "nothing": ("", CLIENT, None),
            }[self.known_by]
            and form["grant_type"] == "authorization_code"
            and form["redirect_uri"] == began.get("redirect_uri")
            and began["code_challenge"] == base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        )
        if not is_right:
            return web.json_response({"error": "invalid_grant"}, status=400)
        token = self.id_token(began["nonce"])
        return web.json_response({"access_token": "x", "token_type": "Bearer", "id_token": token})


@asynccontextmanager
async def issuing(host: str = "127.0.0.1") -> AsyncIterator[FakeIssuer]:
    listener = get_unused_port_socket("127.0.0.1")
    issuer = FakeIssuer(f"http://{host}:{listener.getsockname()[1]}")
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", issuer._answer)
    async with TestServer(app, socket_factory=lambda *_: listener):
        yield issuer
