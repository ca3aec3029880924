"""`[agents.NAME]`: the agents that a worker knows, from the settings and from distributions."""

from collections.abc import Collection, Iterator, Mapping
from importlib.metadata import entry_points
from itertools import chain
from typing import Annotated, Any

from pydantic import (
    BeforeValidator,
    Field,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from answerbus import limits
from answerbus.agent import Malformed, QualifiedTool
from answerbus.budget import Budget
from answerbus.policy import ToolPolicy
from answerbus.private.runs import BestOf, Composition, Delegation
from answerbus.problems import problems_of
from answerbus.toolset_card import ApprovalRule
from answerbus.wire import Digest, Name, Wire, at_most_bytes
from services.settings.section import (
    COUNT_MAX,
    JSON_IN_VARIABLE,
    WHOLE_NUMBERS,
    Flag,
    Section,
    Whole,
)

GROUP = "answerbus.agents"


_NAME = TypeAdapter[str](Name)


class AgentError(Exception):
    """An agent of a distribution cannot be used; the text says in one sentence what to change."""


def _known(table: type[Wire]) -> BeforeValidator:
    """Events may have members that a reader does not know, and settings may not."""

    def check(value: Any) -> Any:
        unknown = set(value) - set(table.model_fields) if isinstance(value, dict) else set()
        if unknown:
            known = ", ".join(f"`{name}`" for name in sorted(table.model_fields))
            named = ", ".join(sorted(map(str, unknown)))
            raise ValueError(f"unknown: {named}; there are {known}")
        return value

    return BeforeValidator(check)


Policy = Annotated[ToolPolicy, _known(ToolPolicy)]


class AgentSettings(Section):
    """`[agents.NAME]`: its instructions, which tools it has, and how far it may go.

    `tools` is all that exists for it. `approvals` are rules for some of them, which their cards can
    only make stricter; `pins` fix the digest of the card of a toolset that some of them are of.
    `policy` has rules on the arguments of some of them, which open runs keep as they were when they
    began, or where that is stricter have as they are now. Results of `trusted` tools are not
    untrusted text. `reconcile_max` is how often a server is asked for the fate of a call, before a
    person is. With `ask_person` its model may ask people, and so may its tools.
    """

    version: Annotated[Whole, Field(ge=1, le=COUNT_MAX)] = 1
    instructions: Annotated[str, Field(min_length=1), at_most_bytes(limits.DEFINITION_BYTES_MAX)]
    tools: Annotated[
        tuple[QualifiedTool, ...], JSON_IN_VARIABLE, Field(max_length=limits.AGENT_TOOLS_MAX)
    ] = ()
    approvals: Annotated[dict[QualifiedTool, ApprovalRule], JSON_IN_VARIABLE] = {}
    pins: Annotated[dict[str, Digest], JSON_IN_VARIABLE] = {}
    policy: Annotated[dict[QualifiedTool, Policy], JSON_IN_VARIABLE] = {}
    policy_for_open_runs: Flag = False
    trusted: Annotated[tuple[QualifiedTool, ...], JSON_IN_VARIABLE] = ()
    steps_max: Annotated[Whole, Field(ge=1, le=limits.STEPS_MAX)] = limits.STEPS_DEFAULT
    calls_max: Annotated[Whole, Field(ge=1, le=limits.STEP_CALLS_MAX)] = limits.STEP_CALLS_MAX
    parallel_max: Annotated[Whole, Field(ge=1, le=limits.PARALLEL_CALLS_MAX)] = (
        limits.PARALLEL_CALLS_DEFAULT
    )
    transcript_bytes_max: Annotated[Whole, Field(ge=1_024, le=limits.TRANSCRIPT_BYTES_MAX)] = (
        limits.TRANSCRIPT_BYTES_MAX
    )
    budget: Annotated[Budget, WHOLE_NUMBERS, _known(Budget), JSON_IN_VARIABLE] = Budget(
        attempts=limits.RUN_ATTEMPTS_DEFAULT
    )
    reconcile_max: Annotated[Whole, Field(ge=1, le=limits.TOOL_QUESTIONS_MAX)] = (
        limits.TOOL_QUESTIONS_DEFAULT
    )
    malformed: Malformed = "retry"
    remember_thoughts: Flag = False
    show_thoughts: Flag = False
    ask_person: Flag = False
    delegate: Annotated[Delegation | None, WHOLE_NUMBERS, _known(Delegation), JSON_IN_VARIABLE] = (
        None
    )
    best_of: Annotated[BestOf | None, WHOLE_NUMBERS, _known(BestOf), JSON_IN_VARIABLE] = None

    @field_validator("budget")
    @classmethod
    def _attempts_for_steps(cls, budget: Budget) -> Budget:
        """The default of a budget of money alone is that of agents: three suit no loop."""
        if "attempts" in budget.model_fields_set:
            return budget
        return budget.model_copy(update={"attempts": limits.RUN_ATTEMPTS_DEFAULT})

    @field_validator("tools")
    @classmethod
    def _each_once(cls, tools: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(tools)) < len(tools):
            raise ValueError("each tool once")
        return tools

    @model_validator(mode="after")
    def _rules_are_for_its_tools(self) -> "AgentSettings":
        """A misspelt one would rule nothing, and its tool would go without."""
        ruled: dict[str, Collection[str]] = {
            "approvals": self.approvals,
            "policy": self.policy,
            "trusted": self.trusted,
        }
        for name, tools in ruled.items():
            if unknown := sorted(set(tools) - set(self.tools)):
                raise ValueError(f"`{name}` of what is not among `tools`: {', '.join(unknown)}")
        toolsets = {tool.partition(".")[0] for tool in self.tools}
        if unknown := sorted(self.pins.keys() - toolsets):
            raise ValueError(f"`pins` of toolsets that `tools` has none of: {', '.join(unknown)}")
        return self

    @model_validator(mode="after")
    def _one_composition(self) -> "AgentSettings":
        names = [f"`{name}`" for name, value in self if isinstance(value, Composition)]
        if len(names) > 1:
            raise ValueError(f"one of {' and '.join(names)}: each says what is done in each step")
        if names and (self.tools or self.delegate):
            raise ValueError(
                f"{names[0]}, or `tools` and `delegate`: with it no model calls anything"
            )
        return self

    @property
    def asked_profiles(self) -> tuple[Name, ...]:
        """The profiles that its delegation and its composition name."""
        asking = [value for _, value in self if isinstance(value, Composition)]
        delegated = self.delegate.profiles if self.delegate else ()
        return (*delegated, *chain.from_iterable(one.asked_profiles for one in asking))


def unknown_names(agents: Mapping[str, AgentSettings], profiles: Collection[str]) -> Iterator[str]:
    """In a sentence each, the agents and profiles that agents ask and that there are not.

    Such a one is never asked: a model that chooses it is shown that, and a selection ends its run.
    """
    for name, agent in sorted(agents.items()):
        for kind, wanted, known in (
            ("agent", agent.delegate.agents if agent.delegate else (), agents),
            ("profile", agent.asked_profiles, profiles),
        ):
            for one in sorted(set(wanted) - set(known)):
                yield f"the agent {name!r} names the {kind} {one!r}, and there is none of that name"


def installed_agents() -> Mapping[str, AgentSettings]:
    """Those that installed distributions bring, each a table as in the settings.

    Raises AgentError.
    """
    return dict(_loaded())


def _loaded() -> Iterator[tuple[str, AgentSettings]]:
    for entry in sorted(entry_points(group=GROUP), key=lambda one: one.name):
        try:
            table: Any = entry.load()
            yield _NAME.validate_python(entry.name), AgentSettings.model_validate(table)
        except ValidationError as error:
            first = problems_of(error, table)[0]
            raise _error(entry.name, f"{first.path}: {first.expected}") from None
        except Exception as error:  # the distribution's own code runs here
            raise _error(entry.name, f"it does not load ({type(error).__name__})") from error


def _error(name: str, fault: str) -> AgentError:
    return AgentError(
        f"The agent {name!r} of an installed distribution cannot be used: {fault}. Correct or "
        "uninstall that distribution."
    )
