"""The claims of a token, if it is a JWT: its audience, and its time of validity.

Nothing is verified, which is the provider's part: this only finds the sentence to show.
"""

import base64
import re
from datetime import UTC, datetime, timedelta
from typing import Any

from services.worker.adapters.providers.apis.response_fields import json_in

TOKEN_CHARS_MAX = 64 * 1024
CLOCKS_DIFFER_MAX = timedelta(minutes=5)  # which issuers and providers allow
_JWT = re.compile(r"[\w-]+\.([\w-]+)\.[\w-]*", re.ASCII)
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # Entra's of an application


def fault_of(token: str, audience: str | None, now: datetime) -> str | None:
    """Why a provider must refuse it, as far as it says so itself."""
    claims = _claims(token)
    given = claims.get("aud")
    listed = given if isinstance(given, list) else [given]
    others = [one for one in listed if isinstance(one, str) and not _ID.fullmatch(one)]
    if audience and others and _plain(audience) not in map(_plain, others):
        return f"is for {', '.join(map(repr, others))} and not for {audience!r}: set `audience`"
    ends, begins = _moment(claims.get("exp")), _moment(claims.get("nbf"))
    if begins is not None and begins > now + CLOCKS_DIFFER_MAX:
        return f"holds from {begins:%H:%M:%S} UTC on, and here it is {now:%H:%M:%S}: set the clock"
    if ends is not None and ends <= now:
        return f"ended at {ends:%Y-%m-%d %H:%M:%S} UTC, and here it is {now:%H:%M:%S}: renew it"
    return None


def _claims(token: str) -> dict[str, Any]:
    found = _JWT.fullmatch(token) if len(token) <= TOKEN_CHARS_MAX else None
    if found is None:
        return {}
    try:
        document = json_in(base64.urlsafe_b64decode(found[1] + "==="))
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _plain(audience: str) -> str:
    """Scopes of Entra end in `/.default`, which no token repeats."""
    return audience.removesuffix(".default").rstrip("/")


def _moment(seconds: Any) -> datetime | None:
    if type(seconds) is not int or not 0 <= seconds < 2**32:
        return None
    return datetime.fromtimestamp(seconds, UTC)
