"""The fault of a profile in one sentence, and whether it may be temporary: pure."""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, assert_never

from answerbus.wire import clip
from services.text.escaping import plain_line
from services.worker.adapters.providers.apis.api import Api, HttpRequest, HttpResponse, Question
from services.worker.adapters.providers.apis.response_fields import json_in
from services.worker.core.attempt.reply import (
    Answered,
    NoAnswer,
    Refused,
    Rejected,
    Reply,
    Throttled,
    TimedOut,
    Truncated,
    Unavailable,
)
from services.worker.ports.provider import NotReady, Unhealthy

NAME_BYTES_MAX = 200  # that are shown of a model's
LISTING_VALUES_MAX = 100_000  # JSON values; some servers list hundreds of models with all they can
MODELS_SHOWN_MAX = 10


def check_key(api_key: str | None, *, needed: bool) -> str | None:
    """A problem of the key that is seen without a request."""
    if api_key is None:
        return "there is no key: set the variable that `api_key_env` names" if needed else None
    if not (api_key.isascii() and api_key.isprintable()):
        return "the key has a line break or the like: correct what `api_key_env` points to"
    return None


def check_one_model(
    api: Api,
    model: HttpRequest,
    models: HttpRequest,
    judge: Callable[[Mapping[str, Any]], str | None],
    unknown: Callable[[bytes], str | None],
) -> Question:
    """What is wrong with the model, by `judge`; by `unknown` with all models, if it is not there.

    Some servers have no listing, and may know the model all the same.
    """
    found = yield model
    if isinstance(found, HttpResponse):
        described = json_in(found.body)
        if not isinstance(described, dict):
            root = model.path.split("/")[1]
            advice = f"correct `base_url`; it ends before /{root}"
            return NotReady(f"{api.base_url} does not serve this API: {advice}")
        return _not_ready(judge(described))
    if not (isinstance(found, Rejected) and found.status == 404 and api.connection.check_model):
        return check_listing(found, api)
    listing = yield models
    if isinstance(listing, HttpResponse):
        return _not_ready(unknown(listing.body))
    return check_listing(listing, api)


def _not_ready(remedy: str | None) -> NotReady | None:
    return None if remedy is None else NotReady(remedy)


def check_listing(reply: Reply, api: Api) -> NotReady | Unhealthy | None:
    """Why asking for models failed, if that says that calls would fail as well; else None."""
    url, credential = api.base_url, api.connection.credential
    match reply:
        case Rejected(status=401) if credential:
            advice = "correct `audience`, or give its identity the right to call models"
            return NotReady(f"{url} refuses the token of the credential `{credential}`: {advice}")
        case Rejected(status=401) | Rejected(code="API_KEY_INVALID" | "invalid_api_key"):
            places = "`api_key_env` or `api_key_file`"
            return NotReady(f"{url} refuses the key: put a valid one where {places} points")
        case Rejected(scope="profile", status=402 | 412 | 429):
            advice = "top it up, or raise its limit"
            return Unhealthy(f"the account at {url} has no credit or quota left: {advice}")
        case Rejected(status=int(status)) if status // 100 == 3:
            return NotReady(f"{url} redirects: set `base_url` to the final address")
        case Unavailable(status=None, ran=False):
            why = f"there is no server at {url}: start it, or correct `base_url`"
            return Unhealthy(why, connected=False)
        case Unavailable(status=None):
            advice = "correct `base_url` (http or https, port)"
            return Unhealthy(f"{url} broke the connection: {advice}")
        case TimedOut(after_s):
            advice = "check the network and `base_url`"
            return Unhealthy(f"{url} did not answer in {after_s:g} s: {advice}")
        case Answered() | Refused() | Truncated() | NoAnswer():
            return None
        case Rejected() | Throttled() | Unavailable():
            return None  # it lists nothing, or not now, and may answer all the same
        case _:
            assert_never(reply)


def check_model(model: str, known: AbstractSet[str], url: str) -> str:
    """The remedy where the server does not have `model`."""
    shown = ", ".join(map(_shown, sorted(known)[:MODELS_SHOWN_MAX]))
    more = len(known) - MODELS_SHOWN_MAX
    rest = f" or one of {more} more" if more > 0 else ""
    return f"{url} has no model {model!r}: set `model` to {shown}{rest}"


def _shown(name: str) -> str:
    """As the server lists it, which may be anything."""
    return plain_line(clip(name, NAME_BYTES_MAX))


def models_in(body: bytes, *, under: str = "data", name: str = "id") -> frozenset[str] | None:
    """The models in a listing; None if it is not JSON at all, empty if it is of another shape."""
    document = json_in(body, LISTING_VALUES_MAX)
    if document is None:
        return None
    entries = document.get(under) if isinstance(document, dict) else document
    listed = entries if isinstance(entries, list) else []
    names = (entry.get(name) for entry in listed if isinstance(entry, dict))
    return frozenset(name for name in names if isinstance(name, str))


def software_in(body: bytes) -> str | None:
    """The owner of the first listed model: llama.cpp gives its own name for all."""
    match json_in(body, LISTING_VALUES_MAX):
        case {"data": [{"owned_by": str(owner)}, *_]}:
            return owner
        case _:
            return None


def cannot_answer(model: str) -> str:
    """The remedy where the model embeds or ranks texts, and does not write any."""
    return f"the model {model!r} writes no answers: set `model` to one that does"


def check_capability(model: str) -> str:
    """The remedy where the model writes JSON only when it likes to."""
    return (
        f"the model {model!r} has no native structured output: set `model` to one that has it, "
        'or say `dialect = "prompted"`'
    )
