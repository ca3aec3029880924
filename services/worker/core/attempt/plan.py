"""How a request will be asked: its profile, the schema it must satisfy, and the wire schema."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from answerbus.limits import EQUAL_ANSWERS_DEFAULT
from answerbus.request import Prior, Request
from services.worker.core.attempt.counted_input import CountedInput
from services.worker.core.attempt.fallback import Fallback, Hop
from services.worker.core.attempt.prompt import Prompt, build
from services.worker.core.attempt.tariff import Tariff
from services.worker.core.attempt.turns import Shown
from services.worker.core.schema.resolved import ResolvedSchema, WireSchema


@dataclass(frozen=True, slots=True)
class ProfileFacts:
    """The facts about a profile that the core needs."""

    name: str
    provider: str
    model: str
    max_output_tokens: int
    timeout_s: float
    tariff: Tariff | None
    show_schema: bool = False
    equal_answers_max: int = EQUAL_ANSWERS_DEFAULT  # 0: the budget alone ends it
    context_tokens: int | None = None
    fallbacks: tuple[Fallback, ...] = ()

    @property
    def model_id(self) -> str:
        """The tokenizer: the same text has as many tokens in each prompt for it."""
        return f"{self.provider}/{self.model}"

    @property
    def input_tokens(self) -> int | None:
        """How many of the tokens that the model reads at once are there for a prompt."""
        if self.context_tokens is None:
            return None
        return self.context_tokens - min(self.max_output_tokens, self.context_tokens // 2)


@dataclass(frozen=True, slots=True)
class Plan:
    """A request that can be asked; `prompt_secret` is the deployment's, for marks around data.

    `step` is asked in the place of a request that an agent works on (core/run/next_step.py); with
    `may_go_on` its answer may call tools, so that the run needs one attempt more. `counted` is
    what the step before was shown. `hops` led to its profile from that of the request. `shown` is
    what comes of the step, where that is there already. Without `may_grow` no output limit is above
    the profile's, also after an answer was cut.
    """

    profile: ProfileFacts
    schema: ResolvedSchema
    wire: WireSchema
    prompt_secret: bytes = b""
    step: Request | None = None
    may_go_on: bool = False
    counted: CountedInput | None = None
    hops: tuple[Hop, ...] = ()
    shown: Shown | None = field(default=None, compare=False, repr=False)
    may_grow: bool = True

    @property
    def may_change_profile(self) -> bool:
        """Whether another one than its profile may be asked, by what happens until its call."""
        return bool(self.profile.fallbacks or self.hops)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for readers of an answer: the model asked, and the rules that were not enforced."""
        return (*(hop.note for hop in self.hops), *self.wire.notes)

    def prompt(self, request: Request, prior: Sequence[Prior]) -> Prompt:
        """The prompt for the model after the attempts in `prior`."""
        return build(
            self.step or request,
            self.wire,
            prior,
            self.profile.max_output_tokens,
            show_schema=self.profile.show_schema,
            secret=self.prompt_secret,
            counted=self.counted,
            input_tokens=self.profile.input_tokens,
            known=self.shown,
            may_grow=self.may_grow,
        )

    def worst_cost(self, prompt: Prompt) -> int:
        """The most that a call can cost, in millionths of a US dollar; 0 without a price."""
        tariff = self.profile.tariff
        return tariff.most(prompt.input_max, prompt.max_output_tokens) if tariff else 0
