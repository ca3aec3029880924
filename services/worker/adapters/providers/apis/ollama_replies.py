"""Reads a response of an Ollama server as a Reply, trusting nothing in it: pure."""

from collections.abc import Mapping
from datetime import datetime

from answerbus.budget import Usage
from services.worker.adapters.providers.apis.errors_inside import true_status
from services.worker.adapters.providers.apis.response_fields import (
    json_in,
    name_in,
    of_status,
    retry_after_s,
    tokens_in,
)
from services.worker.core.attempt.reply import (
    Answered,
    CallFacts,
    Rejected,
    Reply,
    Truncated,
    Unavailable,
)

_FINISHED = ("stop", None)  # older servers say no reason
# Its errors have no codes. With these words no request of the profile would fare better.
_PROFILE_WORDS = {
    "does not support": "unsupported_by_model",
    "requires more system memory": "out_of_memory",
}


def of_answer(status: int, headers: Mapping[str, str], body: bytes, limit: int) -> Reply:
    """Reads a 2xx; `limit` is the output limit in tokens that was asked for."""
    match json_in(body):
        case {"error": {**error}} if (told := true_status(error)) is not None:
            return of_error(told, headers, body, None)
        case {"error": str(words)} if (code := _profile_code(words)) is not None:
            return Rejected("profile", status, code)
        case {"message": {**message}, "done": True, **document}:
            pass
        case _:
            return Unavailable(status, ran=True)
    stop = document.get("done_reason")
    facts = CallFacts(
        model=name_in(document.get("model")),
        stop_reason=name_in(stop),
        usage=Usage(
            input_tokens=tokens_in(document.get("prompt_eval_count")),
            output_tokens=tokens_in(document.get("eval_count")),
        ),
    )
    if stop == "length":
        return Truncated(limit, facts)
    content = message.get("content")
    is_call = not content and message.get("tool_calls")
    if stop not in _FINISHED or is_call or not isinstance(content, str):
        return Unavailable(status, ran=True)
    return Answered(content, facts)


def of_error(status: int, headers: Mapping[str, str], body: bytes, now: datetime | None) -> Reply:
    """Reads any other status; `now` is what a date in `Retry-After` counts from at need."""
    code = _profile_code(_words(body))
    if code is not None:
        return Rejected("profile", status, code)
    return of_status(status, (), retry_after_s(headers, now), ())


def _profile_code(words: str) -> str | None:
    return next((code for phrase, code in _PROFILE_WORDS.items() if phrase in words), None)


def _words(body: bytes) -> str:
    match json_in(body):
        case {"error": str(words)}:
            return words
        case _:
            return ""
