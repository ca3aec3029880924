"""A cassette as a script: the recorded answer to each recorded prompt, and to no other."""

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from answerbus.cassette import (
    CASSETTE_VALUES_MAX,
    Cassette,
    CassetteFault,
    is_cassette,
    read_cassette,
)
from answerbus.json_text import Parsed, parse
from answerbus.plugins import PluginError, installed
from answerbus.registry import Registry
from services.text.digest import text_digest
from services.worker.adapters.providers import scripted_rules as rules
from services.worker.core.attempt.prompt import Prompt
from services.worker.planning.recorded_exchanges import (
    DIALECT,
    Exchange,
    Unplayable,
    exchanges_of,
    prompt_difference,
    texts_of,
)

_NO_EXCHANGE = rules.NoRule("changed_prompt", "the cassette has no answer of a model")
_WRONG_DIALECT = rules.NoRule(
    "wrong_dialect", f'a cassette is played by a profile with `dialect = "{DIALECT}"`'
)


@dataclass(frozen=True, slots=True)
class RecordedScript:
    """The exchanges of a cassette by what the model read."""

    exchanges: tuple[Exchange, ...]
    by_key: dict[str, list[Exchange]]

    def rule_for(self, prompt: Prompt) -> rules.ScriptedRule | rules.NoRule:
        """The recorded answer; else the nearest prompt that was recorded, and the difference."""
        if prompt.wire.dialect != DIALECT:
            return _WRONG_DIALECT
        found = self.by_key.get(text_digest("\0".join(texts_of(prompt))), ())
        if not found:
            return self._changed(prompt)
        own = (one for one in found if one.prompt.request_id == prompt.request_id)
        reply = next(own, found[0]).reply
        return rules.ScriptedRule(reply=rules.Answered(kind="answered", content=reply))

    def _changed(self, prompt: Prompt) -> rules.NoRule:
        own = [one for one in self.exchanges if one.prompt.request_id == prompt.request_id]
        candidates = own or [*self.exchanges]
        if not candidates:
            return _NO_EXCHANGE
        nearest = max(candidates, key=lambda one: _alike(one.prompt, prompt))
        found = prompt_difference(nearest.prompt, prompt)
        return rules.NoRule("changed_prompt", f"{prompt.request_id}, {nearest.place}: {found}")


def load(path: Path) -> rules.Script | RecordedScript | str:
    """The script or the cassette in a file, or what is wrong with the file."""
    text = rules.content_of(path)
    if isinstance(text, str):
        return text
    read = parse(text, CASSETTE_VALUES_MAX)
    if not isinstance(read, Parsed) or not is_cassette(read.value):
        return rules.script_of(path, text)
    cassette = read_cassette(text)
    if isinstance(cassette, CassetteFault):
        return f"{path} is not a playable cassette: {cassette.text}"
    try:
        return recorded_script(path, cassette, installed())
    except PluginError as error:
        return str(error)


def recorded_script(path: Path, cassette: Cassette, registry: Registry) -> RecordedScript | str:
    """All exchanges of the cassette, or which request cannot be played."""
    found: list[Exchange] = []
    for recorded in cassette.requests:
        exchanges = exchanges_of(recorded, recorded.definition, registry)
        if isinstance(exchanges, Unplayable):
            name = recorded.request.request_id
            return f"{path} cannot be played: of {name}, {exchanges.text}"
        found += exchanges
    by_key: dict[str, list[Exchange]] = defaultdict(list)
    for exchange in found:
        by_key[exchange.key].append(exchange)
    return RecordedScript((*found,), by_key)


def _alike(one: Prompt, other: Prompt) -> tuple[int, int]:
    """How many texts are equal, from the newest of both; and how near their numbers are."""
    pairs = zip(texts_of(one), texts_of(other), strict=False)
    return sum(a == b for a, b in pairs), -abs(len(one.turns) - len(other.turns))
