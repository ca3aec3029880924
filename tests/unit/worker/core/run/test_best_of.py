"""What a run proposes and chooses among, without a lane."""

from dataclasses import replace

import pytest
from pydantic import JsonValue, ValidationError

from answerbus.private.runs import AgentDefinition, BestOf, Delegation, RunChildRecord
from answerbus.registry import Registry
from answerbus.request import InlineRef, TextRef
from services.settings.agents import AgentSettings
from services.worker.core.attempt.plan import Plan, ProfileFacts
from services.worker.core.run import children, transitions
from services.worker.core.run.composition import ComputedStep, FreeBudget
from services.worker.core.run.delegation import within
from services.worker.core.run.proposing import Candidate, profiles_of, proposing
from services.worker.core.run.run import Run
from services.worker.core.run.selecting import choosing, selection_schema
from services.worker.core.run.transcript_draft import BYTES_PER_TOKEN
from services.worker.core.schema.resolve import resolve
from services.worker.core.schema.resolved import Accepted, JsonObject, ResolvedSchema, Unusable
from services.worker.limits.profile_limiter import ProfileLimiter
from services.worker.planning.best_of import best_of
from services.worker.planning.planner import Backend, Planner
from tests.unit.worker.builders import ORIGIN
from tests.unit.worker.core.run_builders import ACCOUNT, USAGE, asked, final, inputs
from tests.unit.worker.lane.world import FakeProvider

BEST_OF = BestOf(n=3)
LONG = "x" * 5_000
CANDIDATES = tuple(
    Candidate(f"call:1.{place}", f"r-1.call.1.{place}", "default", answer)
    for place, answer in enumerate(("One.", LONG))
)


def definition(best_of: BestOf | None = BEST_OF, **more: object) -> AgentDefinition:
    fields = {"name": "best", "version": 1, "instructions": "Help.", "best_of": best_of, **more}
    return AgentDefinition.model_validate(fields)


def schema() -> ResolvedSchema:
    found = selection_schema(final(TextRef()), CANDIDATES)
    assert not isinstance(found, Unusable)
    return found


def test_a_composition_is_best_of_or_none() -> None:
    assert definition().composition == BEST_OF
    assert definition().without_composition() == definition(None)
    assert definition(None).composition is None


def test_the_ids_of_the_proposals_are_all_that_a_selector_can_name() -> None:
    properties = (schema().schema or {})["properties"]

    assert isinstance(properties, dict)
    assert properties["element_id"] == {"type": "string", "enum": ["call:1.0", "call:1.1"]}
    read = schema().read({"reason": "Short.", "element_id": "call:1.0"})
    assert isinstance(read, Accepted)
    assert read.answer == "One."
    assert read.chosen is not None
    assert (read.chosen.call_id, read.chosen.reason) == ("r-1.call.1.0", "Short.")


@pytest.mark.parametrize(
    "reply",
    [
        {"element_id": "call:1.0"},
        {"reason": "", "element_id": "call:1.2"},
        {"reason": "", "element_id": None},
        {"reason": "", "element_id": "call:1.0", "answer": "mine"},
        {"reason": "", "element_id": ["call:1.0"]},
        "call:1.0",
        None,
        [],
    ],
)
def test_nothing_else_is_a_choice(reply: object) -> None:
    assert not isinstance(schema().read(reply), Accepted)  # type: ignore[arg-type]


def test_a_long_proposal_is_shown_by_its_beginning() -> None:
    request, run = asked(), Run(definition(transcript_bytes_max=2_048))
    facts = choosing(request, run, CANDIDATES).context.facts[-2:]

    assert facts[0].value == "One."
    assert isinstance(facts[1].value, dict)
    assert facts[1].value["bytes"] == len(LONG)
    assert len(str(facts[1].value["begins"])) <= 1_024
    assert {fact.trust for fact in facts} == {"untrusted"}


ODD: list[JsonValue] = ["x" * 60_000, '"\n' * 30_000, [["é"]] * 5_000, {"a": ["\\"] * 9_000}]


@pytest.mark.parametrize("context_tokens", [2_000, 6_000])
@pytest.mark.parametrize("answer", ODD, ids=["text", "quotes", "lists", "object"])
def test_a_selection_stays_within_what_its_model_reads_at_once(
    context_tokens: int, answer: JsonValue
) -> None:
    facts = ProfileFacts("default", "fake", "m", 500, 60.0, None, context_tokens=context_tokens)
    backend = Backend(facts, "openai", FakeProvider(), ProfileLimiter(9))
    among = [Candidate(f"call:1.{n}", f"r-1.call.1.{n}", "default", answer) for n in range(3)]
    planner, run = Planner({"default": backend}, Registry()), Run(definition())
    step = choosing(asked(), run, among, planner.room_of("default"))
    plan = planner.plan_as(step, lambda: selection_schema(final(TextRef()), among), "default")

    assert isinstance(plan, Plan)
    prompt = plan.prompt(asked(), ())
    text = "".join([prompt.system, prompt.wire.text, *(turn.text for turn in prompt.turns)])
    room = (context_tokens - 500) * BYTES_PER_TOKEN
    assert room / 2 < len(text.encode()) <= room, "and the room is used"


@pytest.mark.parametrize(
    ("attempts", "tokens", "number"),
    [
        (1, None, 0),
        (2, None, 0),
        (3, None, 2),
        (4, None, 3),
        (99, None, 3),
        (9, 299, 0),
        (9, 300, 3),
    ],
)
def test_as_many_are_proposed_as_leave_a_selection(
    attempts: int, tokens: int | None, number: int
) -> None:
    funds = FreeBudget(attempts, tokens, None)
    computed = proposing(profiles_of(asked(), BEST_OF), funds, (100, 0), (100, 0))

    assert (len(computed.step.calls) if computed else 0) == number
    if computed:
        assert computed.reserved_minimum.tokens == (100 if tokens else 0)


def test_money_is_kept_too() -> None:
    profiles = profiles_of(asked(), BEST_OF)

    assert proposing(profiles, FreeBudget(9, None, 24), (0, 10), (0, 5)) is None
    computed = proposing(profiles, FreeBudget(9, None, 25), (0, 10), (0, 5))
    assert computed is not None
    assert computed.reserved_minimum.micro_usd == 5


def test_profiles_take_turns() -> None:
    some = BestOf(n=5, profiles=("a", "b"))

    assert profiles_of(asked(), some) == ("a", "b", "a", "b", "a")
    assert set(profiles_of(asked(), BEST_OF)) == {asked().profile}


@pytest.mark.parametrize(("depth", "has"), [(1, True), (2, False), (3, False)])
def test_a_tree_is_no_deeper_than_its_root_allows(depth: int, has: bool) -> None:
    above = Run(definition(None, delegate=Delegation(depth_max=2)))

    found = within(Run(definition()), above, depth)

    assert (found.definition.best_of is not None) == has


@pytest.mark.parametrize(
    "more",
    [
        {"best_of": {"n": 1}},
        {"best_of": {"n": 17}},
        {"best_of": {"select": "another"}},
        {"best_of": {"among": 3}},
        {"best_of": {}, "tools": ["orders.get"]},
        {"best_of": {}, "delegate": {}},
        {"delegate": {"depth": 3}},
    ],
)
def test_settings_say_what_cannot_be(more: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        AgentSettings.model_validate({"instructions": "Help.", **more})


def test_settings_are_as_the_page_on_agents_has_them() -> None:
    table = {"n": 3, "propose": "proposal", "select": "selection"}
    reported = AgentSettings.model_validate({"instructions": "Help.", "best_of": table})

    assert reported.best_of == BestOf(n=3, propose="proposal")


def test_a_published_answer_is_looked_at_by_its_published_form() -> None:
    schema: JsonObject = {"type": "object", "required": ["a"]}
    found = resolve(InlineRef(name="x", json_schema=schema), Registry())
    assert isinstance(found, ResolvedSchema)
    no: JsonObject = {"output": None, "success": False, "notes": [], "failure_reason": "cannot"}

    assert found.is_valid({**no, "output": {"a": 1}, "success": True, "failure_reason": None})
    assert found.is_valid(no)
    assert not found.is_valid({**no, "output": {"b": 1}, "success": True, "failure_reason": None})
    assert not found.is_valid("text")


async def test_proposals_are_made_before_their_step_is_settled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    facts = ProfileFacts("default", "fake", "m", 500, 60.0, None)
    backend = Backend(facts, "openai", FakeProvider(), ProfileLimiter(9))
    planner, request, run = Planner({"default": backend}, Registry()), asked(), Run(definition())
    funds = FreeBudget(9, None, None)
    found = await best_of(planner, request, run, BEST_OF, lambda: funds, "default")
    assert isinstance(found, ComputedStep)
    monkeypatch.setattr(children, "with_members", lambda _: pytest.fail("made while it is settled"))

    of_step = replace(inputs(of=request), origin=ORIGIN, children=found.children)
    change = transitions.take_step(run, found.step, 1, USAGE, USAGE, ACCOUNT, of_step)

    made = [one.request for one in change.written if isinstance(one, RunChildRecord)]
    assert len(made) == BEST_OF.n
    assert {one.context.instructions for one in made} == {
        f"Help.\n\n{request.context.instructions}"
    }
