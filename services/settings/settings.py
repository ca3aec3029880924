"""The one settings file, `answerbus.toml`, overridden by `ANSWERBUS_<SECTION>__<KEY>` variables."""

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import (
    BaseModel,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from answerbus.limits import NAME_CHARS_MAX
from answerbus.problems import problems_of
from answerbus.topics import PARTITIONS_DEFAULT, PREFIX_DEFAULT
from answerbus.wire import Label, Name
from services.settings.agents import AgentSettings
from services.settings.budgets import BUDGETS_MAX, BudgetName, BudgetSettings
from services.settings.console import ConsoleSettings
from services.settings.fallback import fault_of
from services.settings.profiles import BUILT_IN, Profile
from services.settings.secret_file import file_state
from services.settings.section import (
    JSON_IN_VARIABLE,
    FileName,
    Section,
    Text,
    VariableText,
    Whole,
)
from services.settings.shadow import fault_of_shadows
from services.settings.worker import AccountSettings, IdSettings, WorkerSettings, card_advice

PARTITIONS_MAX = 10_000
METRIC_LABELS_MAX = 5  # each multiplies the series that Prometheus keeps
FILE_DEFAULT = Path("answerbus.toml")
FILE_OF_TRIAL = Path(".run/answerbus.toml")  # as `make up` writes it
_VARIABLE_PREFIX = "ANSWERBUS_"
_ALIKE_MIN = 0.6  # of 1: how alike two names must be
_NAME = re.compile(rf"[a-z0-9._\-]{{1,{NAME_CHARS_MAX}}}")
_VARIABLE_PART = re.compile(r"[A-Za-z_][A-Za-z0-9_\-]*")  # neither `a.b` nor the number of an item
_A_TABLE = "must be a table"
_PROVIDER = f"`provider` must be one of {', '.join(sorted(BUILT_IN))}, or that of a plug-in"
_EXPECTED = {  # where pydantic speaks of Python
    "dict_type": _A_TABLE,
    "model_type": _A_TABLE,
    "model_attributes_type": _A_TABLE,
    "missing": "must be set",
    "union_tag_not_found": _PROVIDER,
    "union_tag_invalid": _PROVIDER,
}


class SetUpError(Exception):
    """A set-up that cannot work; the text says in one sentence what to change (exit code 3)."""


CONNECT_LIMIT_S = 20.0  # until a broker answers


class KafkaSettings(Section):
    """`[kafka]`: where the broker is and how to speak with it (names as aiokafka's)."""

    bootstrap_servers: Text = "localhost:9092"
    topic_prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9._\-]{1,100}$")] = PREFIX_DEFAULT
    group_id: Text | None = None
    partitions: Annotated[Whole, Field(ge=1, le=PARTITIONS_MAX)] = PARTITIONS_DEFAULT
    replication_factor: Annotated[Whole, Field(ge=-1, le=32)] = -1
    session_timeout_ms: Annotated[Whole, Field(ge=1_000, le=1_800_000)] = 45_000
    rebalance_timeout_ms: Annotated[Whole, Field(ge=1_000, le=1_800_000)] = 60_000
    group_instance_id: Text | None = None
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    client_rack: Text | None = None
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] = "PLAIN"
    sasl_plain_username: Text | None = None
    sasl_plain_password_env: str | None = None
    sasl_plain_password_file: FileName | None = None
    sasl_token_file: FileName | None = None
    sasl_token_env: str | None = None
    sasl_token_plugin: Text | None = None
    ssl_cafile: FileName | None = None
    ssl_certfile: FileName | None = None
    ssl_keyfile: FileName | None = None
    ssl_password_env: str | None = None
    ssl_password_file: FileName | None = None

    @model_validator(mode="after")
    def _has_each_secret_once(self) -> Self:
        for name in ("sasl_plain_password", "ssl_password"):
            if getattr(self, f"{name}_env") and getattr(self, f"{name}_file"):
                raise ValueError(f"a secret lies in one place: leave `{name}_env` or `_file` out")
        return self

    @property
    def worker_group(self) -> str:
        return self.group_id or f"{self.topic_prefix}.worker"

    @property
    def join_limit_s(self) -> float:
        """How long a member that is dead, and one that is slow, may keep a new one waiting."""
        return CONNECT_LIMIT_S + (self.session_timeout_ms + self.rebalance_timeout_ms) / 1000


SpanContentLevel = Literal["none", "redacted", "full"]


class TelemetrySettings(Section):
    """`[telemetry]`: where spans and metrics are sent, beside `/metrics`, which is always there.

    `labels` are names of requests' labels, such as `tenant`, whose values are counted apart.
    `content` is how much spans show of prompts, answers, arguments and results.
    """

    otlp_endpoint: Text | None = None  # by default what OTEL_EXPORTER_OTLP_ENDPOINT says
    content: SpanContentLevel = "none"
    labels: Annotated[tuple[Label, ...], JSON_IN_VARIABLE, Field(max_length=METRIC_LABELS_MAX)] = ()


class Settings(Section):
    kafka: KafkaSettings = KafkaSettings()
    worker: WorkerSettings = WorkerSettings()
    ids: IdSettings = IdSettings()
    accounts: AccountSettings = AccountSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    console: ConsoleSettings = ConsoleSettings()
    profiles: Annotated[dict[str, Profile], Field(max_length=1_000)] = {}
    agents: Annotated[dict[Name, AgentSettings], Field(max_length=1_000)] = {}
    budgets: Annotated[dict[BudgetName, BudgetSettings], Field(max_length=BUDGETS_MAX)] = {}

    @property
    def longest_call_s(self) -> float:
        """How long a call of any profile may take."""
        return max((profile.timeout_s for profile in self.profiles.values()), default=0.0)

    @property
    def drain_s(self) -> float:
        """How long a worker that leaves ends its calls: as set, else as long as any may take."""
        worker = self.worker
        is_set = "drain_s" in worker.model_fields_set
        return worker.drain_s if is_set else max(worker.drain_s, self.longest_call_s)

    @property
    def advice(self) -> list[str]:
        """What works, and could be set better."""
        return [*card_advice(self.worker), *self.drain_advice]

    @property
    def drain_advice(self) -> list[str]:
        """What a shorter drain than the longest call costs."""
        if self.drain_s >= self.longest_call_s:
            return []
        message = (
            f"`worker.drain_s` ({self.drain_s:g} s) is shorter than the longest call "
            f"({self.longest_call_s:g} s): a worker that leaves loses such calls, and they are "
            "paid for again"
        )
        return [message]

    @field_validator("profiles", "agents", mode="before")
    @classmethod
    def _names_can_be_asked_for(cls, named: Any, about: ValidationInfo) -> Any:
        """Requests must be able to name a profile or an agent, and variables know no cases."""
        what = (about.field_name or "").removesuffix("s")
        for name in named if isinstance(named, dict) else ():
            if name != name.lower():
                raise ValueError(f"the {what} name {name!r} must be in lower case")
            if not _NAME.fullmatch(name):
                raise ValueError(
                    f"the {what} name {name!r} must be 1 to {NAME_CHARS_MAX} of a-z, 0-9, `.`, "
                    "`_` and `-`: no request can name another"
                )
        return named

    @field_validator("profiles")
    @classmethod
    def _other_profiles_are_there(cls, profiles: dict[str, Profile]) -> dict[str, Profile]:
        if fault := fault_of(profiles) or fault_of_shadows(profiles):
            raise ValueError(fault)
        return profiles


def load(path: Path | None, variables: Mapping[str, str]) -> Settings:
    """Read the file and the variables. Raises SetUpError.

    Without a path it is that of the working folder, else that of the trial there, else none.
    """
    if file_of(path) == FILE_OF_TRIAL:
        path = FILE_OF_TRIAL
    tables = _read(path)
    for name, text in sorted(variables.items()):
        if name.startswith(_VARIABLE_PREFIX):
            _override(tables, name, text)
    try:
        return Settings.model_validate(tables)
    except ValidationError as error:
        raise SetUpError(_setting_error(error, tables, path or FILE_DEFAULT)) from None


def file_of(path: Path | None) -> Path:
    """Where settings are read from, whether it is there or not."""
    is_trial = path is None and not FILE_DEFAULT.exists() and FILE_OF_TRIAL.exists()
    return FILE_OF_TRIAL if is_trial else path or FILE_DEFAULT


def _setting_error(error: ValidationError, tables: dict[str, Any], file: Path) -> str:
    """One fault: an unknown name first, since a missing one may be that one misspelt."""
    unknown = _first_unknown(error, Settings)
    if unknown:
        path, fault = unknown.path, " is unknown"
        fault += f"; did you mean `{unknown.meant}`?" if unknown.meant else "."
    else:
        first = problems_of(error, tables)[0]
        expected = _EXPECTED.get(first.code) or first.expected.removeprefix("Value error, ")
        path, fault = tuple(first.path.lstrip("/").split("/")), f": {expected}."
    return f"Setting `{'.'.join(path)}`{fault} Correct it in {file}{_or_variable(path)}."


def _or_variable(path: tuple[str, ...]) -> str:
    """The variable that a fault may be in: that of the whole list where it is in an item."""
    table = tuple(takewhile(_VARIABLE_PART.fullmatch, path))
    if len(table) < 2:
        return ""
    return f" or in the variable {_VARIABLE_PREFIX}{'__'.join(table).upper()}"


def from_environment(path: Path | None) -> Settings:
    """The settings of this process."""
    return load(path, os.environ)  # noqa: TID251 - the one place that reads variables for settings


def secret(variable: str | None) -> str | None:
    """The value of the variable that a setting names, if it is set and not empty."""
    return os.environ.get(variable) or None if variable else None  # noqa: TID251 - secrets are there


def otlp_endpoint(settings: TelemetrySettings) -> str | None:
    """Where the OpenTelemetry collector is; None if nothing is to be sent."""
    return settings.otlp_endpoint or secret("OTEL_EXPORTER_OTLP_ENDPOINT")


def _read(path: Path | None) -> dict[str, Any]:
    try:
        return tomllib.loads((path or FILE_DEFAULT).read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        if path is None:
            return {}
        raise SetUpError(f"There is no settings file {path}; name one with --config.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise SetUpError(
            f"The settings file {path or FILE_DEFAULT} is unreadable: {error}"
        ) from None


def _override(tables: dict[str, Any], variable: str, text: str) -> None:
    parts = variable.removeprefix(_VARIABLE_PREFIX).lower().split("__")
    if len(parts) < 2 or not all(parts):
        raise SetUpError(
            f"The variable {variable} is unknown; settings are named "
            f"{_VARIABLE_PREFIX}<SECTION>__<KEY>, such as {_VARIABLE_PREFIX}KAFKA__TOPIC_PREFIX."
        )
    table = tables
    for part in parts[:-1]:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise SetUpError(f"The variable {variable} names a table where the file has a value.")
    table[parts[-1]] = VariableText(text)


class SettingsFile:
    """The file that `--config` names, or the one that stands in for it; variables count too."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    @property
    def state(self) -> tuple[int, ...]:
        """The state of the file, which changes when it does; empty where it is missing."""
        return file_state(file_of(self._path))

    def load(self) -> Settings:
        """The current settings. Raises SetUpError."""
        return from_environment(self._path)


class UnknownKey(NamedTuple):
    """Where an unknown name stands, and the known one that looks most like it."""

    path: tuple[str, ...]
    meant: str | None


def _first_unknown(error: ValidationError, model: type[BaseModel]) -> UnknownKey | None:
    """The first unknown name that a validation of `model` has met."""
    for details in error.errors(include_url=False, include_input=False, include_context=False):
        if details["type"] == "extra_forbidden":
            return _unknown(details["loc"], model.model_json_schema())
    return None


def _unknown(location: Sequence[str | int], schema: Mapping[str, Any]) -> UnknownKey:
    definitions = schema.get("$defs", {})
    *tables, name = map(str, location)
    here, path = schema, []
    for part in tables:
        here, is_tag = _inside(here, part, definitions)
        if not is_tag:
            path.append(part)
    close = get_close_matches(name.lower(), here.get("properties", {}), n=1, cutoff=_ALIKE_MIN)
    return UnknownKey((*path, name), close[0] if close else None)


def _inside(
    here: Mapping[str, Any], part: str, definitions: Mapping[str, Any]
) -> tuple[Mapping[str, Any], bool]:
    """The table of that name; or the one of a union's tables that has this tag."""
    tags = here.get("discriminator", {}).get("mapping", {})
    if part in tags:
        return _resolved({"$ref": tags[part]}, definitions), True
    named = next(iter(here.get("patternProperties", {}).values()), None)  # names of our choice
    inside = here.get("properties", {}).get(part) or named or here.get("additionalProperties")
    return _resolved(inside or {}, definitions), False


def _resolved(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without a reference, and without `null` beside the one table that it may be."""
    if "anyOf" in schema:
        schema = next((one for one in schema["anyOf"] if "$ref" in one), schema)
    reference = schema.get("$ref")
    return definitions[reference.rpartition("/")[2]] if reference else schema
