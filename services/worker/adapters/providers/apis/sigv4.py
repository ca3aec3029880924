"""AWS Signature Version 4: the headers that sign one request; pure."""

import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit

from services.worker.adapters.providers.apis.connection import AwsKeys

_ALGORITHM = "AWS4-HMAC-SHA256"


def signed_headers(
    keys: AwsKeys,
    host: str,
    region: str,
    service: str,
    method: str,
    target: str,
    body: bytes,
    now: datetime,
) -> Mapping[str, str]:
    """For a target without a query; `host` is the header as it is sent."""
    moment = now.astimezone(UTC)
    stamp, day = f"{moment:%Y%m%dT%H%M%SZ}", f"{moment:%Y%m%d}"
    headers = {"host": host, "x-amz-date": stamp}
    if keys.session_token:
        headers["x-amz-security-token"] = keys.session_token
    named = ";".join(headers)  # they are in the order of their names
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    path = quote(urlsplit(target).path, safe="/~")  # quoted twice, as AWS wants it
    request = "\n".join([method, path, "", lines, named, hashlib.sha256(body).hexdigest()])
    scope = f"{day}/{region}/{service}/aws4_request"
    digest = hashlib.sha256(request.encode()).hexdigest()
    key = f"AWS4{keys.secret_key}".encode()
    for part in (day, region, service, "aws4_request"):
        key = _hmac(key, part)
    signature = _hmac(key, "\n".join([_ALGORITHM, stamp, scope, digest])).hex()
    credential = f"Credential={keys.access_key}/{scope}"
    authorization = f"{_ALGORITHM} {credential}, SignedHeaders={named}, Signature={signature}"
    sent = {name: value for name, value in headers.items() if name != "host"}
    return {**sent, "authorization": authorization}


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()
