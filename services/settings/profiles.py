"""`[profiles.NAME]` in the settings: a provider, a model, and how it is asked."""

from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    Field,
    GetCoreSchemaHandler,
    GetPydanticSchema,
    ValidationError,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)
from pydantic_core import CoreSchema
from pydantic_core.core_schema import no_info_wrap_validator_function

from answerbus.limits import EQUAL_ANSWERS_DEFAULT
from answerbus.problems import problems_of
from services.settings.fallback import Fallbacks
from services.settings.installed import UnusablePlugin, loaded, names
from services.settings.section import (
    COUNT_MAX,
    FileName,
    Flag,
    Number,
    Section,
    Text,
    VariableText,
    Whole,
    json_in_variable,
)
from services.settings.shadow import ShadowSettings

PROVIDERS = "answerbus.providers"  # the group of entry points

_Dialect = Literal["native", "prompted"]


PricedTier = Literal["flex", "priority", "batch"]
PRICE_USD_MAX = 1_000_000.0  # of a million tokens: a dollar each


THINKING_TOKENS_MIN = 1_024  # Anthropic takes no smaller budget
_Usd = Annotated[Number, Field(ge=0, le=PRICE_USD_MAX)]


class TokenPrice(Section):
    """Prices of a million tokens, in US dollars; a part without a price costs as much as input."""

    input_usd: _Usd
    output_usd: _Usd
    cached_usd: _Usd | None = None
    cache_write_usd: _Usd | None = None
    cache_write_1h_usd: _Usd | None = None


class Price(TokenPrice):
    """The same, and what differs in the tiers that a provider may name."""

    tiers: dict[PricedTier, TokenPrice] = {}


class _Profile(Section):
    timeout_s: Annotated[Number, Field(gt=0, le=3_600)] = 60
    max_in_flight: Annotated[Whole, Field(ge=1, le=100_000)] = 500
    max_output_tokens: Annotated[Whole, Field(ge=1, le=1_000_000)] = 4_096
    context_tokens: Annotated[Whole, Field(ge=1, le=10_000_000)] | None = None
    equal_answers_max: Annotated[Whole, Field(ge=0, le=COUNT_MAX)] = EQUAL_ANSWERS_DEFAULT
    requests_per_minute: Annotated[Whole, Field(ge=1, le=COUNT_MAX)] | None = None
    tokens_per_minute: Annotated[Whole, Field(ge=1, le=1_000 * COUNT_MAX)] | None = None
    scope: Literal["group", "worker"] = "group"  # of the three limits
    price: Price | None = None
    then: Fallbacks = ()
    shadow: ShadowSettings | None = None


class ReachedProfile(_Profile):
    """A profile that asks a server: what all providers have in common, those of plug-ins too."""

    provider: str
    model: Text
    dialect: Literal["native", "llama_cpp", "plain", "prompted", "vllm"] = "native"
    api_key_env: str | None = None
    temperature: Number | None = None
    base_url: Text | None = None
    check_model: Flag = True
    api_key_file: FileName | None = None
    credential: Text | None = None  # in the place of a key: whose tokens authorize calls
    audience: Text | None = None  # of its tokens; by default what the provider takes

    @field_validator("base_url")
    @classmethod
    def _has_no_query(cls, base_url: str | None) -> str | None:
        """Paths are appended to it, and a key in it would be no secret."""
        if base_url is not None and not {"?", "#"}.isdisjoint(base_url):
            raise ValueError(
                "must end before any `?` or `#`, since paths are appended to it; "
                "put a key into the variable that `api_key_env` names"
            )
        return base_url

    @model_validator(mode="after")
    def _has_one_key(self) -> Self:
        if self.api_key_file is not None and self.names_key_variable:
            raise ValueError("a key lies in one place: leave `api_key_env` or `api_key_file` out")
        if self.credential and (self.api_key_file is not None or self.names_key_variable):
            raise ValueError("a profile has a key or a `credential`: leave one of them out")
        if self.audience and not self.credential:
            raise ValueError("`audience` is for the tokens of a `credential`: name one")
        return self

    @property
    def names_key_variable(self) -> bool:
        """Whether the settings name the variable of the key, which then must be set."""
        return "api_key_env" in self.model_fields_set

    @property
    def has_own_server(self) -> bool:
        """Whether it asks a server of the operator's choice, which may need no key."""
        return self.base_url is not None


class _FlexProfile(ReachedProfile):
    service_tier: str | None = None
    flex_fallback: Flag = False

    @model_validator(mode="after")
    def _flex_falls_back(self) -> Self:
        if self.flex_fallback and self.service_tier != "flex":
            raise ValueError('`flex_fallback` needs `service_tier = "flex"`')
        return self


class OpenAILikeProfile(_FlexProfile):
    """A vendor that speaks one of OpenAI's APIs: what differs is in the profile of its own."""

    api: Literal["chat", "responses"] = "chat"
    temperature: Annotated[Number, Field(ge=0, le=2)] | None = None
    output_limit_field: Literal["max_completion_tokens", "max_tokens"] | None = None
    show_schema: Flag | None = None  # None: wherever `base_url` is set
    service_tier: Literal["auto", "default", "flex", "priority"] | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = (
        None
    )
    verbosity: Literal["low", "medium", "high"] | None = None
    prompt_cache_key: Annotated[Text, Field(max_length=64)] | None = None

    @model_validator(mode="after")
    def _engine_is_elsewhere(self) -> Self:
        if self.dialect in {"llama_cpp", "plain", "vllm"} and self.base_url is None:
            raise ValueError(
                f"the dialect `{self.dialect}` is for a server of your own: set `base_url`"
            )
        return self


class OpenAIProfile(OpenAILikeProfile):
    """`provider = "openai"`: OpenAI, or any server that speaks one of its APIs."""

    provider: Literal["openai"]
    api_key_env: str | None = "OPENAI_API_KEY"


class AzureProfile(OpenAILikeProfile):
    """`provider = "azure"`: models of OpenAI and others at Azure, by its v1 API."""

    provider: Literal["azure"]
    api_key_env: str | None = "AZURE_OPENAI_API_KEY"
    resource: Annotated[Text, Field(pattern=r"^[A-Za-z0-9\-]{2,64}$")] | None = None
    priced_as: Text | None = None  # the model behind a deployment

    @model_validator(mode="after")
    def _is_somewhere(self) -> Self:
        if (self.resource is None) == (self.base_url is None):
            raise ValueError("needs `resource`, the name of the Azure resource, or `base_url`")
        return self


class AnthropicProfile(ReachedProfile):
    """`provider = "anthropic"`: Anthropic's Messages API, or any server that speaks it."""

    provider: Literal["anthropic"]
    dialect: _Dialect = "native"
    api_key_env: str | None = "ANTHROPIC_API_KEY"
    temperature: Annotated[Number, Field(ge=0, le=1)] | None = None
    prompt_cache: Flag = False
    prompt_cache_ttl: Literal["5m", "1h"] = "5m"
    service_tier: Literal["auto", "standard_only"] | None = None
    reasoning_effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    thinking_budget: Annotated[Whole, Field(ge=0, le=1_000_000)] | None = None

    @model_validator(mode="after")
    def _thoughts_fit(self) -> Self:
        budget = self.thinking_budget or 0
        if budget and not THINKING_TOKENS_MIN <= budget < self.max_output_tokens:
            raise ValueError(
                f"`thinking_budget` is 0, or at least {THINKING_TOKENS_MIN:,} tokens and less "
                "than `max_output_tokens`, as it counts as output"
            )
        if budget and self.temperature not in {None, 1}:
            raise ValueError("models that think take no `temperature` but 1: leave it out")
        return self

    @model_validator(mode="after")
    def _keeps_what_has_a_ttl(self) -> Self:
        if "prompt_cache_ttl" in self.model_fields_set and not self.prompt_cache:
            raise ValueError("`prompt_cache_ttl` needs `prompt_cache = true`")
        return self


class GeminiProfile(_FlexProfile):
    """`provider = "gemini"`: the Gemini API."""

    provider: Literal["gemini"]
    dialect: _Dialect = "native"
    api_key_env: str | None = "GEMINI_API_KEY"
    temperature: Annotated[Number, Field(ge=0, le=2)] | None = None
    thinking_budget: Annotated[Whole, Field(ge=-1, le=1_000_000)] | None = None
    service_tier: Literal["standard", "flex", "priority"] | None = None
    reasoning_effort: Literal["minimal", "low", "medium", "high", "xhigh"] | None = None

    @model_validator(mode="after")
    def _thinks_by_one_measure(self) -> Self:
        if self.reasoning_effort is not None and self.thinking_budget is not None:
            raise ValueError("give `thinking_budget` or `reasoning_effort`: the API takes one")
        return self


class BedrockProfile(ReachedProfile):
    """`provider = "bedrock"`: models of all makers at Amazon Bedrock, by Converse."""

    provider: Literal["bedrock"]
    dialect: _Dialect = "native"
    api_key_env: str | None = "AWS_BEARER_TOKEN_BEDROCK"
    region: Annotated[Text, Field(pattern=r"^[a-z]{2,4}(-[a-z]{1,12}){1,3}-[0-9]{1,2}$")]
    temperature: Annotated[Number, Field(ge=0, le=1)] | None = None
    service_tier: Literal["default", "flex", "priority", "reserved"] | None = None


class _AtVertex(ReachedProfile):
    dialect: _Dialect = "native"
    credential: Text | None = "google"  # there are no keys for it
    project: Annotated[Text, Field(pattern=r"^[a-z0-9:.\-]{1,64}$")]
    region: Annotated[Text, Field(pattern=r"^[a-z0-9\-]{2,32}$")]


class VertexProfile(_AtVertex):
    """`provider = "vertex"`: Gemini at Google Vertex."""

    provider: Literal["vertex"]
    temperature: Annotated[Number, Field(ge=0, le=2)] | None = None
    thinking_budget: Annotated[Whole, Field(ge=-1, le=1_000_000)] | None = None
    reasoning_effort: Literal["minimal", "low", "medium", "high", "xhigh"] | None = None


class VertexAnthropicProfile(_AtVertex):
    """`provider = "vertex_anthropic"`: Anthropic's models at Google Vertex."""

    provider: Literal["vertex_anthropic"]
    temperature: Annotated[Number, Field(ge=0, le=1)] | None = None
    reasoning_effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    thinking_budget: Annotated[Whole, Field(ge=0, le=1_000_000)] | None = None


class OllamaProfile(ReachedProfile):
    """`provider = "ollama"`: an Ollama server; by default one on this machine."""

    provider: Literal["ollama"]
    dialect: _Dialect = "native"
    api_key_env: str | None = None
    temperature: Annotated[Number, Field(ge=0, le=2)] | None = None
    think: Flag | None = None
    show_schema: Flag = True  # the server enforces it unseen

    @property
    def has_own_server(self) -> bool:
        """Ollama runs on machines of the operator."""
        return True


class ScriptedProfile(_Profile):
    """`provider = "scripted"`: replies from a file, for tests and load."""

    provider: Literal["scripted"]
    dialect: _Dialect = "native"
    model: Text = "scripted"
    script: FileName
    journal: FileName | None = None


def asks_alike(one: "Profile", other: "Profile") -> bool:
    """Whether both ask the same provider in the same way, be it within other limits."""
    limits = {*_Profile.model_fields} - {"context_tokens"}  # which may be sent to a server
    is_alike = one.model_dump(exclude=limits) == other.model_dump(exclude=limits)
    return type(one) is type(other) and is_alike


_BuiltIn = Annotated[
    OpenAIProfile
    | AzureProfile
    | AnthropicProfile
    | GeminiProfile
    | BedrockProfile
    | VertexProfile
    | VertexAnthropicProfile
    | OllamaProfile
    | ScriptedProfile,
    Field(discriminator="provider"),
]
BUILT_IN = frozenset(
    name
    for profile in get_args(get_args(_BuiltIn)[0])
    for name in get_args(profile.model_fields["provider"].annotation)
)


def plugin(name: str) -> Any:
    """The provider of an installed distribution; its `profile` is a class of profiles.

    Raises UnusablePlugin.
    """
    found = loaded(PROVIDERS, name, "provider")
    profile = getattr(found, "profile", None)
    if not (isinstance(profile, type) and issubclass(profile, ReachedProfile)):
        raise UnusablePlugin(f"the provider {name!r} has no `profile` that is a ReachedProfile")
    if get_args(profile.model_fields["provider"].annotation) != (name,):
        raise UnusablePlugin(f"the profiles of the provider {name!r} are those of another name")
    return found


def _validated(value: Any, built_in: ValidatorFunctionWrapHandler) -> Any:
    """A profile by its provider: one of ours, else that of a plug-in."""
    if isinstance(value, ReachedProfile | ScriptedProfile):
        return value
    if isinstance(value, VariableText):
        value = json_in_variable(value)
    name = value.get("provider") if isinstance(value, dict) else None
    if not isinstance(name, str) or name in BUILT_IN or name not in names(PROVIDERS):
        return built_in(value)
    try:
        return plugin(name).profile.model_validate(value)
    except ValidationError as error:
        first = problems_of(error, value)[0]
        raise ValueError(f"{first.path.lstrip('/')}: {first.expected}") from None


def _schema(_source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
    return no_info_wrap_validator_function(_validated, handler.generate_schema(_BuiltIn))


Profile = Annotated[ReachedProfile | ScriptedProfile, GetPydanticSchema(_schema)]
