"""Whether a toolset's card can be used by a worker; pure."""

from collections.abc import Callable, Iterator

from answerbus.toolset_card import ToolCard, ToolsetCard
from services.tools.check.rule import Ruling
from services.worker.core.schema.validator import SchemaValidator, compile_schema

NO_CARD = (
    "there is no card: write one `toolset` record to the topic of cards, with the toolset as key"
)


def card_rulings(card: ToolsetCard | None) -> Iterator[Ruling]:
    """One for the card, its schemas, its descriptions and its digests each."""
    if card is None:
        yield Ruling("card", "wrong", NO_CARD)
        return
    names = [tool.name for tool in card.tools]
    if not names:
        yield Ruling("card", "wrong", "the card names no tool")
    elif twice := sorted({name for name in names if names.count(name) > 1}):
        yield Ruling("card", "wrong", f"the card names {', '.join(twice)} more than once")
    else:
        yield Ruling("card", "ok", f"it offers {', '.join(names)}")
    yield _all("schemas", card, _schema_fault, "each can be compiled, and takes an object")
    yield _all("descriptions", card, _description_fault, "each tool says what it is for")
    yield _digests(card)


def _all(
    rule: str, card: ToolsetCard, fault_of: Callable[[ToolCard], str | None], well: str
) -> Ruling:
    faults = [f"{tool.name}: {fault}" for tool in card.tools if (fault := fault_of(tool))]
    return Ruling(rule, "wrong", "; ".join(faults)) if faults else Ruling(rule, "ok", well)


def _schema_fault(tool: ToolCard) -> str | None:
    compiled = compile_schema(tool.args_schema)
    if not isinstance(compiled, SchemaValidator):
        return "; ".join(problem.expected for problem in compiled.problems)
    if tool.args_schema.get("type") != "object":
        return 'arguments are an object: say "type": "object"'
    return None


def _description_fault(tool: ToolCard) -> str | None:
    return None if tool.description.strip() else "a model is told nothing of it: describe it"


def _digests(card: ToolsetCard) -> Ruling:
    claimed = [(tool.name, tool.digest, tool.computed_digest()) for tool in card.tools]
    claimed.append(("the card", card.digest, card.computed_digest()))
    wrong = [name for name, detail, found in claimed if detail not in (None, found)]
    if wrong:
        detail = f"that of {', '.join(wrong)} is not the digest of what is there: leave it out"
        return Ruling("digests", "wrong", detail)
    return Ruling("digests", "ok", f"{card.computed_digest()} (pin this one)")
