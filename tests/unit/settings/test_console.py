"""`[console]`: ways into the console that cannot be are refused in one sentence."""

import json
from pathlib import Path
from typing import Any

import pytest

from services.settings.console import OidcSettings
from services.settings.settings import SetUpError, load

OIDC = {"issuer": "https://login.example", "client_id": "c", "operators": ["o"]}


@pytest.mark.parametrize(
    ("console", "message"),
    [
        ({"oidc": OIDC | {"issuer": "http://login.example"}}, "must be an https address"),
        ({"oidc": OIDC | {"issuer": "https://login.example?x=y"}}, "`console.oidc.issuer`"),
        ({"oidc": OIDC | {"operators": []}}, "no one could sign in"),
        ({"oidc": OIDC | {"scopes": ["email"]}}, "`scopes` must have openid"),
        ({"oidc": OIDC | {"scopes": ["openid email"]}}, "`console.oidc.scopes`"),
        (
            {"oidc": OIDC | {"client_secret_env": "A", "client_secret_file": "b"}},
            "a secret lies in one place",
        ),
        ({"oidc": OIDC | {"client_secrt_env": "A"}}, "did you mean `client_secret_env`"),
        ({"oidc": {"issuer": "https://login.example"}}, "`console.oidc.client_id`"),
        ({"ssl_keyfile": "key.pem"}, "`ssl_keyfile` needs `ssl_certfile`"),
        ({"session_s": 43_201}, "`console.session_s`"),
        ({"proxies": ["10.0.0.1/8"]}, "10.0.0.1/8 has host bits set"),
        ({"proxies": ["ingress"]}, "'ingress' does not appear to be an IPv4 or IPv6 network"),
        ({"proxies": [5]}, "'5' does not appear to be an IPv4 or IPv6 network"),
        ({"workers": ["10.0.0.7:8080"]}, "addresses such as http://10.0.0.7:8080"),
        ({"workers": ["http://a:8080", "http://:8080"]}, "addresses such as http://10.0.0.7:8080"),
        ({"workers": ["http://a:x"]}, "addresses such as http://10.0.0.7:8080"),
        ({"workers": ["ftp://a"]}, "addresses such as http://10.0.0.7:8080"),
        ({"workers": ["http://a/?b"]}, "addresses such as http://10.0.0.7:8080"),
    ],
)
def test_ways_into_the_console_that_cannot_be_are_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, console: dict[str, Any], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    variables = {}
    for name, value in console.items():
        inner = value if isinstance(value, dict) else {"": value}
        for key, one in inner.items():
            text = json.dumps(one) if isinstance(one, list) else str(one)
            variables["__".join(filter(None, ("ANSWERBUS_CONSOLE", name, key))).upper()] = text
    with pytest.raises(SetUpError) as raised:
        load(None, variables)

    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_an_issuer_of_this_machine_needs_no_tls() -> None:
    for host in ("127.0.0.1:1", "localhost", "[::1]:1"):
        assert OidcSettings.model_validate(OIDC | {"issuer": f"http://{host}/realm"})
