"""Short names for calls of the OpenAI adapter."""

from tests.providers.apis import OPENAI
from tests.providers.calls import LIMIT_S, PROMPT, SCHEMA, SECRET, SHORT_S, WIRE

GOOD = OPENAI.good
GOOD_REPLY = OPENAI.good_reply
WHOLE = OPENAI.whole
ask = OPENAI.ask
provider_at = OPENAI.at

__all__ = [
    "GOOD",
    "GOOD_REPLY",
    "LIMIT_S",
    "PROMPT",
    "SCHEMA",
    "SECRET",
    "SHORT_S",
    "WHOLE",
    "WIRE",
    "ask",
    "provider_at",
]
