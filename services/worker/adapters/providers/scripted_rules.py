"""The file that the scripted provider plays: the reply to each call, and its delay.

    {"rules": [{"when": {"contains": "npm", "attempt": 1},
                "reply": {"kind": "throttled", "retry_after_s": 2.0}},
               {"reply": {"kind": "answered", "json": {"n": 1}, "usage": {"output_tokens": 9}},
                "latency_s": {"median_s": 2.0, "sigma": 0.5, "max_s": 30.0, "seed": 7}}]}

The first rule that fits a call is played. The same attempt of the same request always gets the
same reply after the same latency, in any order of calls.
"""

import json
import math
import random
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from answerbus.json_text import NotJson, parse
from answerbus.problems import problems_of
from services.worker.core.attempt.prompt import Prompt

SCRIPT_BYTES_MAX = 16 * 1024 * 1024
SECONDS_MAX = 86_400.0
SIGMA_MAX = 10.0

Seconds = Annotated[float, Field(ge=0, le=SECONDS_MAX)]
Tokens = Annotated[int, Field(ge=0)]


class ScriptedPart(BaseModel):
    """A misspelt field of a script is an error, not a default."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class RuleCondition(ScriptedPart):
    """Conditions of a call; those left out match all. `request_id` may have `*` and `?`."""

    request_id: str | None = None
    contains: str | None = None
    attempt: Annotated[int, Field(ge=1)] | None = None
    schema_name: str | None = None

    def fits(self, prompt: Prompt) -> bool:
        """Whether all that is given holds for the call; `contains` is looked for in all texts."""
        texts = (prompt.system, *(turn.text for turn in prompt.turns))
        return (
            (self.request_id is None or fnmatchcase(prompt.request_id, self.request_id))
            and (self.attempt is None or self.attempt == prompt.attempt)
            and (self.schema_name is None or self.schema_name == prompt.wire.name)
            and (self.contains is None or any(self.contains in text for text in texts))
        )


class ScriptedUsage(ScriptedPart):
    """Tokens as a provider reports them."""

    input_tokens: Tokens | None = None
    output_tokens: Tokens | None = None


class Answered(ScriptedPart):
    """Either `content`, text as a model writes it, or `json`, any value that we write out."""

    kind: Literal["answered"]
    content: str | None = None
    document: Annotated[JsonValue, Field(alias="json")] = None
    usage: ScriptedUsage = ScriptedUsage()

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.content is None) != ("document" in self.model_fields_set):
            raise PydanticCustomError("either_or", "either `content` or `json`")
        return self

    @property
    def text(self) -> str:
        """The model's scripted content."""
        if self.content is not None:
            return self.content
        return json.dumps(self.document, ensure_ascii=False)


class Refused(ScriptedPart):
    kind: Literal["refused"]
    reason: str
    category: str | None = None


class Truncated(ScriptedPart):
    """The answer is cut at the prompt's own limit."""

    kind: Literal["truncated"]


class Throttled(ScriptedPart):
    """The provider asks to come later."""

    kind: Literal["throttled"]
    retry_after_s: Seconds | None = None


class Unavailable(ScriptedPart):
    """The provider is at fault; `ran` is false if it never saw the call."""

    kind: Literal["unavailable"]
    status: int | None = None
    ran: bool = True


class TimedOut(ScriptedPart):
    """As if the whole timeout had passed, without waiting for it."""

    kind: Literal["timed_out"]


class Hang(ScriptedPart):
    """Nothing, until the timeout has really passed."""

    kind: Literal["hang"]


class Rejected(ScriptedPart):
    """The provider will not do this."""

    kind: Literal["rejected"]
    scope: Literal["request", "profile"]
    status: int | None = None
    code: str | None = None


Played = Answered | Refused | Truncated | Throttled | Unavailable | TimedOut | Hang | Rejected


class LatencySpread(ScriptedPart):
    """Log-normal latencies, drawn again for each attempt of each request."""

    median_s: Seconds
    sigma: Annotated[float, Field(ge=0, le=SIGMA_MAX)]
    max_s: Seconds
    seed: int = 0

    def seconds(self, prompt: Prompt) -> float:
        """At most `max_s`."""
        chance = random.Random(f"{self.seed}/{prompt.request_id}/{prompt.attempt}")  # noqa: S311
        return min(self.median_s * math.exp(self.sigma * chance.gauss(0, 1)), self.max_s)


class ScriptedRule(ScriptedPart):
    """A reply, the calls that get it, and how late."""

    when: RuleCondition = RuleCondition()
    reply: Annotated[Played, Field(discriminator="kind")]
    latency_s: Seconds | LatencySpread = 0.0

    def latency_of(self, prompt: Prompt) -> float:
        """Seconds before the reply."""
        late = self.latency_s
        return late.seconds(prompt) if isinstance(late, LatencySpread) else late


class Script(ScriptedPart):
    rules: tuple[ScriptedRule, ...]

    def rule_for(self, prompt: Prompt) -> "ScriptedRule | NoRule":
        fitting = (rule for rule in self.rules if rule.when.fits(prompt))
        return next(fitting, NoRule("no_rule"))


@dataclass(frozen=True, slots=True)
class NoRule:
    """Why a call has no reply: the code of its rejection, and for the log what is wrong."""

    code: str
    reason: str | None = None


def content_of(path: Path) -> bytes | str:
    """The content of a file, or why it cannot be used: one clause that names it."""
    try:
        with path.open("rb") as file:
            text = file.read(SCRIPT_BYTES_MAX + 1)
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"
    if len(text) > SCRIPT_BYTES_MAX:
        return f"{path} has more than {SCRIPT_BYTES_MAX} bytes"
    return text


def script_of(path: Path, text: bytes) -> Script | str:
    """The script in the text of a file, or what is wrong with it."""
    read = parse(text)
    if isinstance(read, NotJson):
        return f"{path} is not a script: expected {read.reason} (byte {read.position})"
    try:
        return Script.model_validate_json(text)
    except ValidationError as error:
        problem = problems_of(error, read.value)[0]
        return f"{path} is not a script: at {problem.path or '/'}: {problem.expected}"
