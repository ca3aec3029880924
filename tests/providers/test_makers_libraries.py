"""The makers' own libraries: our signature is botocore's, and their chains give us tokens."""

import asyncio
import json
import os
import random
import re
import string
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from ssl import Purpose, SSLContext, create_default_context
from typing import Any
from unittest import mock
from urllib.parse import unquote_plus

import pytest
from botocore import auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from services.settings.profiles import BedrockProfile
from services.worker.adapters.providers.apis.connection import AwsKeys, Connection
from services.worker.adapters.providers.credentials import renewed
from services.worker.adapters.providers.credentials.credential import Token
from services.worker.adapters.providers.credentials.known import credential_named
from services.worker.adapters.providers.kinds.bedrock import BedrockKind
from services.worker.core.attempt.reply import Answered
from services.worker.ports.provider import NotReady, Readiness, Unhealthy
from services.worker.tasks.own_thread import OwnThread
from tests.integration.certificates import Authority
from tests.providers.calls import LIMIT_S, PROMPT
from tests.providers.keyed_server import keyed_server
from tests.providers.misbehaving import Misbehaving, Script, answer, misbehaving
from tests.providers.test_bedrock import GOOD, MODEL
from tests.providers.test_credentials import SCOPE, at, jwt, provider_at

# Signatures

SIGNED = 200
ODD = string.ascii_letters + string.digits + "-._~:/+ %=&?#é嗨"
BASE64 = string.ascii_letters + string.digits + "+/="


def made_up(chance: random.Random, letters: str, longest: int) -> str:
    return "".join(chance.choices(letters, k=chance.randint(1, longest)))


@pytest.mark.parametrize(
    "address", [None, "http://127.0.0.1:8080", "https://proxy.example:443/aws"]
)
def test_a_signature_is_that_of_botocore(
    address: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(SIGNED):
        chance = random.Random(f"{seed} {address}")
        now = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=chance.randrange(10**9))
        monkeypatch.setattr(auth, "get_current_datetime", partial(now.replace, tzinfo=None))
        token = made_up(chance, BASE64, 400) if chance.random() < 0.5 else None
        keys = AwsKeys(made_up(chance, BASE64[:62], 20), made_up(chance, ODD, 40), token)
        model = f"m{made_up(chance, ODD, 60)}"
        region = chance.choice(["eu-central-1", "us-gov-west-1", "ap-southeast-3"])
        profile = BedrockProfile.model_validate(
            {"provider": "bedrock", "model": model, "region": region, "base_url": address}
        )
        kind, connection = BedrockKind(), Connection(model, None, 1, address, signing=keys)
        api, sign = kind.api(profile, connection), kind.sign(profile, connection)
        body, url = chance.randbytes(chance.randrange(999)), api.base_url + api.request(PROMPT).path
        sent = AWSRequest("POST", url, data=body)
        makers = Credentials(keys.access_key, keys.secret_key, token)
        auth.SigV4Auth(makers, "bedrock", region).add_auth(sent)

        assert sign is not None
        ours = sign("POST", "/" + url.split("/", 3)[3], body, now)
        theirs = {name.lower(): text for name, text in sent.headers.items()}
        assert ours == {name: theirs[name] for name in ours}, seed
        assert ("x-amz-security-token" in ours) == (token is not None)


# Chains

LASTS_S = 3_599
HOUR = timedelta(hours=1)
FAR = "2126-01-01T00:00:00Z"
OF_POD = "token-of-the-pod"  # from its platform
ROLE = "arn:aws:iam::123456789012:role/workers"


@dataclass(frozen=True)
class Place:
    """A process without an identity: its folder, its variables, and what its issuers show."""

    folder: Path
    variable: Callable[[str, str], None]
    tls: SSLContext

    def file(self, name: str, text: str) -> str:
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    def variables(self, **named: str) -> None:
        for name, text in named.items():
            self.variable(name, text)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    for name in [*os.environ]:  # noqa: TID251
        if name.startswith(("AWS_", "AZURE_", "GOOGLE_", "IDENTITY_", "MSI_", "IMDS_")):
            monkeypatch.delenv(name)
    authority = Authority(tmp_path, "issuers")
    signed = authority.signs("issuer")
    tls = create_default_context(Purpose.CLIENT_AUTH)
    tls.load_cert_chain(signed.certificate, signed.key)
    found = Place(tmp_path, monkeypatch.setenv, tls)
    found.variables(
        HOME=str(tmp_path), AWS_EC2_METADATA_DISABLED="true", REQUESTS_CA_BUNDLE=str(authority.file)
    )
    return found


@dataclass(frozen=True)
class Chain:
    """A way to an identity: what leads to the issuer, and how that grants a token."""

    credential: str
    leads_to: Callable[[Place, str], None]
    granted: Callable[[str], Script]
    asked: tuple[str, ...]  # is in the request of the issuer, without its quotes
    is_tls: bool = False


def azure_workload(place: Place, url: str) -> None:
    place.variables(
        AZURE_AUTHORITY_HOST=url,
        AZURE_TENANT_ID="tenant-1",
        AZURE_CLIENT_ID="client-1",
        AZURE_FEDERATED_TOKEN_FILE=place.file("azure", OF_POD),
    )


def azure_managed(place: Place, url: str) -> None:
    place.variables(IDENTITY_ENDPOINT=f"{url}/msi/token", IDENTITY_HEADER="of-the-host")


def google_federated(place: Place, url: str) -> None:
    pool = "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p"
    account = {
        "type": "external_account",
        "audience": f"{pool}/providers/p",
        "token_url": f"{url}/v1/token",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "credential_source": {"file": place.file("google", OF_POD)},
    }
    name = place.file("federated.json", json.dumps(account))
    place.variables(GOOGLE_APPLICATION_CREDENTIALS=name)


def aws_container(place: Place, url: str) -> None:
    place.variables(
        AWS_CONTAINER_CREDENTIALS_FULL_URI=f"{url}/v1/credentials",
        AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=place.file("aws", OF_POD),
    )


def aws_web_identity(place: Place, url: str) -> None:
    place.variables(
        AWS_ENDPOINT_URL_STS=url,
        AWS_DEFAULT_REGION="eu-central-1",
        AWS_ROLE_ARN=ROLE,
        AWS_WEB_IDENTITY_TOKEN_FILE=place.file("aws", OF_POD),
    )


def by_oauth(token: str) -> Script:
    kind = "urn:ietf:params:oauth:token-type:access_token"
    granted = {"access_token": token, "token_type": "Bearer", "issued_token_type": kind}
    return answer({**granted, "expires_in": LASTS_S})


def by_host(token: str) -> Script:
    ends_at = at(datetime.now(UTC)) + LASTS_S  # noqa: TID251
    return answer({"access_token": token, "token_type": "Bearer", "expires_on": str(ends_at)})


def by_container(token: str, ends: str = FAR) -> Script:
    keys = {"AccessKeyId": token, "SecretAccessKey": "secret", "Token": "session"}
    return answer({**keys, "Expiration": ends})


def by_sts(token: str) -> Script:
    keys = (
        f"<AccessKeyId>{token}</AccessKeyId><SecretAccessKey>secret</SecretAccessKey>"
        f"<SessionToken>session</SessionToken><Expiration>{FAR}</Expiration>"
    )
    name = "AssumeRoleWithWebIdentity"
    body = (
        f'<{name}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{name}Result>'
        f"<Credentials>{keys}</Credentials></{name}Result></{name}Response>"
    )
    return answer(body.encode(), headers={"content-type": "text/xml"})


WORKLOAD = Chain(
    "azure",
    azure_workload,
    by_oauth,
    ("/tenant-1/oauth2/v2.0/token", f"client_assertion={OF_POD}", "client_id=client-1", SCOPE),
    is_tls=True,
)
MANAGED = Chain(
    "azure", azure_managed, by_host, ("/msi/token", f"resource={SCOPE.removesuffix('/.default')}")
)
FEDERATED = Chain(
    "google", google_federated, by_oauth, ("/v1/token", f"subject_token={OF_POD}", SCOPE)
)
CONTAINER = Chain("aws", aws_container, by_container, ("/v1/credentials",))
WEB_IDENTITY = Chain(
    "aws",
    aws_web_identity,
    by_sts,
    ("Action=AssumeRoleWithWebIdentity", f"RoleArn={ROLE}", f"WebIdentityToken={OF_POD}"),
)
CHAINS = {
    "azure, workload identity": WORKLOAD,
    "azure, managed identity": MANAGED,
    "google, workload identity federation": FEDERATED,
    "aws, container": CONTAINER,
    "aws, web identity": WEB_IDENTITY,
}


def issuer_of(chain: Chain, place: Place, *scripts: Script) -> Any:
    return misbehaving(*scripts, tls=place.tls if chain.is_tls else None)


def leads_to(chain: Chain, place: Place, issuer: Misbehaving) -> None:
    chain.leads_to(place, issuer.base_url.removesuffix("/v1"))


@pytest.mark.parametrize("name", CHAINS)
async def test_a_chain_leads_to_a_token(name: str, place: Place) -> None:
    chain = CHAINS[name]
    async with issuer_of(chain, place, chain.granted("token-0")) as issuer:
        leads_to(chain, place, issuer)
        token = await credential_named(chain.credential)(SCOPE)

    if chain.credential == "aws":
        assert token.key == AwsKeys("token-0", "secret", "session")
    else:
        assert token.key == "token-0"
        assert token.lasts_s is not None
        assert LASTS_S - 60 < token.lasts_s <= LASTS_S
    (seen,) = issuer.seen
    sent = unquote_plus(f"{seen.path} {seen.body.decode()}")
    assert [part for part in chain.asked if part not in sent] == []


async def test_keys_come_from_variables_before_those_of_a_profile(place: Place) -> None:
    lines = "aws_access_key_id = of-file\naws_secret_access_key = secret\n"
    file = place.file("credentials", f"[workers]\n{lines}")
    place.variables(AWS_SHARED_CREDENTIALS_FILE=file, AWS_PROFILE="workers")
    credential = credential_named("aws")
    of_file = await credential(None)
    place.variables(AWS_ACCESS_KEY_ID="of-variable", AWS_SECRET_ACCESS_KEY="other")

    assert of_file.key == AwsKeys("of-file", "secret")
    assert (await credential(None)).key == AwsKeys("of-variable", "other")


@pytest.mark.parametrize("chain", [WORKLOAD, FEDERATED], ids=["azure", "google"])
async def test_a_refused_token_is_asked_of_the_chain_once_more(
    chain: Chain, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renewed, "AGAIN_AFTER_S", 0.0)
    scripts = [chain.granted(f"token-{number}") for number in range(2)]
    async with issuer_of(chain, place, *scripts) as issuer, keyed_server("token-1") as server:
        leads_to(chain, place, issuer)
        async with provider_at(server.address, credential=chain.credential) as provider:
            reply = await provider.ask(PROMPT, timeout_s=LIMIT_S)

    assert isinstance(reply, Answered)
    assert server.seen == ["token-0", "token-1"]
    assert len(issuer.seen) == 2


async def test_keys_that_aws_refuses_are_asked_of_the_chain_once_more(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renewed, "AGAIN_AFTER_S", 0.0)
    ended = answer({"message": "no"}, 403, {"x-amzn-errortype": "ExpiredTokenException"})
    grants = (by_container("KEY0"), by_container("KEY1"))
    async with misbehaving(*grants) as issuer, misbehaving(ended, answer(GOOD)) as server:
        leads_to(CONTAINER, place, issuer)
        async with bedrock_at(server.base_url) as provider:
            reply = await provider.ask(PROMPT, timeout_s=LIMIT_S)

    assert isinstance(reply, Answered)
    signed = [seen.headers["authorization"] for seen in server.seen]
    assert [re.findall(r"Credential=(KEY\d)/", text) for text in signed] == [["KEY0"], ["KEY1"]]


def bedrock_at(base_url: str, credential: str = "aws") -> Any:
    table = {"provider": "bedrock", "model": MODEL, "region": "eu-central-1"}
    return provider_at(base_url.removesuffix("/v1"), credential=credential, **table)


# Faults at start

NOW = datetime.now(UTC)  # noqa: TID251


def refused(error: str) -> Script:
    return answer({"error": error, "error_description": "AADSTS700024: not in its time"}, 400)


def refused_by_sts(code: str) -> Script:
    body = f"<ErrorResponse><Error><Code>{code}</Code><Message>no</Message></Error></ErrorResponse>"
    return answer(body.encode(), 400, {"content-type": "text/xml"})


def no_token(credential: str, kind: str) -> Unhealthy:
    return Unhealthy(
        f"the credential `{credential}` gave no token ({kind}): correct what its identity is made "
        "from"
    )


OTHER = "https://management.azure.com"
FAULTS: dict[str, tuple[Chain, Script, Readiness]] = {
    "another audience": (
        WORKLOAD,
        by_oauth(jwt(aud=OTHER, exp=at(NOW + HOUR))),
        NotReady(f"the token is for {OTHER!r} and not for {SCOPE!r}: set `audience`"),
    ),
    "an ended token": (
        WORKLOAD,
        by_oauth(jwt(exp=at(datetime(2026, 1, 1, tzinfo=UTC)))),
        NotReady("the token ended at 2026-01-01 00:00:00 UTC, and here it is TIME: renew it"),
    ),
    "a clock that is slow": (
        WORKLOAD,
        by_oauth(jwt(nbf=at(NOW + HOUR), exp=at(NOW + 2 * HOUR))),
        NotReady("the token holds from TIME UTC on, and here it is TIME: set the clock"),
    ),
    "azure: an ended token of the pod": (
        WORKLOAD,
        refused("invalid_client"),
        no_token("azure", "ClientAuthenticationError"),
    ),
    "google: an ended token of the pod": (
        FEDERATED,
        refused("invalid_grant"),
        no_token("google", "OAuthError"),
    ),
    "aws: an ended token of the pod": (
        WEB_IDENTITY,
        refused_by_sts("ExpiredTokenException"),
        no_token("aws", "ExpiredTokenException"),
    ),
    "aws: ended keys": (
        CONTAINER,
        by_container("KEY0", "2026-01-01T00:00:00Z"),
        no_token("aws", "RuntimeError"),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
async def test_what_is_wrong_with_an_identity_is_one_sentence(name: str, place: Place) -> None:
    """And no call is made."""
    chain, script, expected = FAULTS[name]
    async with issuer_of(chain, place, script) as issuer, keyed_server() as server:
        leads_to(chain, place, issuer)
        at_server = bedrock_at if chain.credential == "aws" else provider_at
        async with at_server(server.address, credential=chain.credential) as provider:
            found = await provider.preflight()

    assert isinstance(found, NotReady | Unhealthy)
    text = found.remedy if isinstance(found, NotReady) else found.why
    said = re.sub(r"\d\d:\d\d:\d\d(?= UTC on|: )", "TIME", text)
    assert type(found)(said) == expected
    assert server.seen == []


async def test_a_chain_that_leads_nowhere_is_named(place: Place) -> None:
    async with bedrock_at("http://127.0.0.1:1/v1") as provider:
        assert await provider.preflight() == no_token("aws", "NoCredentials")


# Threads


async def test_a_library_that_hangs_has_one_thread_and_its_late_token_counts() -> None:
    goes_on = threading.Event()
    asked: list[str | None] = []

    def hangs(audience: str | None) -> Token:
        asked.append(audience)
        goes_on.wait(LIMIT_S)
        return Token(f"of {audience}")

    credential = OwnThread(hangs)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await credential("a")
    waiting = [asyncio.create_task(credential(audience)) for audience in "ab"]
    await asyncio.sleep(0)
    goes_on.set()

    assert await asyncio.gather(*waiting) == [Token("of a"), Token("of b")]
    assert {*asked} == {"a", "b"}
    assert len(asked) == 2
    await credential("a")
    assert asked[2:] == ["a"]


async def test_a_thread_that_cannot_be_started_is_started_by_the_next_call() -> None:
    credential = OwnThread[str, Token](lambda _: Token("t"))
    with (
        mock.patch.object(threading.Thread, "start", side_effect=RuntimeError("can't start")),
        pytest.raises(RuntimeError),
    ):
        await credential("a")

    assert await asyncio.wait_for(credential("a"), LIMIT_S) == Token("t")


async def test_a_library_that_exits_fails_the_call_alone() -> None:
    library = mock.Mock(side_effect=[SystemExit(1), Token("t")])
    credential = OwnThread(library)

    with pytest.raises(RuntimeError, match="SystemExit"):
        await asyncio.wait_for(credential("a"), LIMIT_S)
    assert await asyncio.wait_for(credential("a"), LIMIT_S) == Token("t")


def test_a_library_that_hangs_keeps_no_process() -> None:
    script = (
        "import asyncio, time\n"
        "from services.worker.tasks.own_thread import OwnThread\n"
        "asked = OwnThread(lambda _: time.sleep(600))(None)\n"
        "try: asyncio.run(asyncio.wait_for(asked, 0.05))\n"
        "except TimeoutError: print('left')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stdout == "left\n"
