"""From one profile to its backend."""

# HTTP and the price list take time to load, and profiles of scripts need neither.
# ruff: noqa: PLC0415

from dataclasses import dataclass, field, replace

from services.settings.fallback import FallbackSettings
from services.settings.installed import UnusablePlugin
from services.settings.profiles import Profile, ReachedProfile, ScriptedProfile
from services.settings.secret_file import SecretFile
from services.settings.secrets import LiveMask
from services.settings.settings import SetUpError
from services.worker.adapters.providers.apis.connection import AwsKeys, Connection, is_header_text
from services.worker.adapters.providers.credentials.known import credential_named
from services.worker.adapters.providers.credentials.renewed import RenewedToken
from services.worker.adapters.providers.keyed import FileKey, Key, KeyedProvider, KeySource
from services.worker.adapters.providers.keys import key_of
from services.worker.adapters.providers.kinds.known import Kind, kind_of
from services.worker.adapters.providers.masked import MaskedProvider
from services.worker.adapters.providers.scripted import ScriptedProvider
from services.worker.adapters.tariffs import tariff_of
from services.worker.core.attempt.fallback import Condition, Fallback
from services.worker.core.attempt.plan import ProfileFacts
from services.worker.core.limits.reachability import Reachability
from services.worker.dialects.dispatch import DialectName
from services.worker.limits.profile_limiter import ProfileLimiter
from services.worker.planning.planner import Backend
from services.worker.ports.clock import Clock
from services.worker.ports.costly_work import CostlyWork, InPlace
from services.worker.ports.provider import Provider


@dataclass(frozen=True, slots=True)
class BackendContext:
    """Objects that all backends share: the clock, a mask of their secrets, and server states.

    A server may know the keys of other profiles too. `costly_work` masks long answers.
    """

    clock: Clock
    mask: LiveMask = field(default_factory=lambda: LiveMask((), ()))
    costly_work: CostlyWork = field(default_factory=InPlace)
    servers: dict[str, Reachability] = field(default_factory=dict)

    def server(self, address: str) -> Reachability:
        """One for all the profiles that it serves; shown without a secret."""
        return self.servers.setdefault(address, Reachability(self.mask(address)))


def backend_of(
    name: str, profile: Profile, context: BackendContext, key_file: SecretFile | None
) -> Backend:
    """The backend of a profile. Raises SetUpError that names it."""
    provider, server = _provider(name, profile, context, key_file)
    facts = ProfileFacts(
        name=name,
        provider=profile.provider,
        model=profile.model,
        max_output_tokens=profile.max_output_tokens,
        timeout_s=profile.timeout_s,
        tariff=tariff_of(profile, context.clock.now()),
        show_schema=_shows_schema(profile),
        equal_answers_max=profile.equal_answers_max,
        context_tokens=profile.context_tokens,
        fallbacks=tuple(map(_fallback, profile.then)),
    )
    limiter = ProfileLimiter(
        profile.max_in_flight,
        profile.requests_per_minute,
        profile.tokens_per_minute,
        context.server(server),
        is_of_group=profile.scope == "group",
    )
    masked = MaskedProvider(provider, context.mask, context.costly_work)
    return Backend(facts, _dialect(profile), masked, limiter)


def _fallback(settings: FallbackSettings) -> Fallback:
    conditions = (Condition(kind, bound) for kind, bound in settings.conditions)
    return Fallback(settings.profile, tuple(conditions))


def _dialect(profile: Profile) -> DialectName:
    if profile.dialect != "native":
        return profile.dialect
    return "openai" if isinstance(profile, ScriptedProfile) else kind_of(profile).dialect


def _shows_schema(profile: Profile) -> bool:
    return not isinstance(profile, ScriptedProfile) and kind_of(profile).shows_schema(profile)


def _provider(
    name: str, profile: Profile, context: BackendContext, key_file: SecretFile | None
) -> tuple[Provider, str]:
    """The provider, and the server that it shares with other profiles."""
    clock = context.clock
    if isinstance(profile, ScriptedProfile):
        scripted = ScriptedProvider(
            script=profile.script, journal=profile.journal, model=profile.model, clock=clock
        )
        return scripted, f"the script of profile {name}"
    from services.worker.adapters.providers.exchange import server_of
    from services.worker.adapters.providers.http import HttpProvider

    kind = _kind(name, profile)
    key = key_file.value if key_file else key_of(name, profile)
    connection = connection_of(profile, key)
    api = kind.api(profile, connection)
    server = server_of(api.base_url)
    if server is None:
        raise SetUpError(
            f"Profile `{name}`: `profiles.{name}.base_url` is not a URL: it must be one like "
            "https://host/v1 or http://localhost:8080/v1."
        )
    for header, text in api.headers.items():
        if not is_header_text(header + text):
            raise SetUpError(
                f"Profile `{name}`: the header {header!r} of its provider has characters that no "
                "header can carry; headers are printable ASCII."
            )

    def make(key: Key | None) -> Provider:
        signing = key if isinstance(key, AwsKeys) else None
        text = None if isinstance(key, AwsKeys) else key
        keyed = replace(connection, api_key=text, signing=signing)
        standard, sign = kind.standard_api(profile, keyed), kind.sign(profile, keyed)
        return HttpProvider(kind.api(profile, keyed), clock, fallback=standard, sign=sign)

    keys = _key_source(name, profile, kind, context, key_file)
    if keys is None:
        return make(key), server
    audience = profile.audience or kind.audience if profile.credential else None
    return KeyedProvider(profile.provider, profile.model, keys, make, audience, clock), server


def _key_source(
    name: str,
    profile: ReachedProfile,
    kind: Kind,
    context: BackendContext,
    key_file: SecretFile | None,
) -> KeySource | None:
    """Where the key of a profile comes from that changes. Raises SetUpError."""
    if key_file is not None:
        return FileKey(key_file)
    if profile.credential is None:
        return None
    try:
        credential = credential_named(profile.credential)
    except UnusablePlugin as error:
        raise SetUpError(f"Profile `{name}`: {error}.") from None
    token = RenewedToken(profile.credential, credential, profile.audience or kind.audience)
    context.mask.learn((), [token])
    return token


def _kind(name: str, profile: ReachedProfile) -> Kind:
    """Its provider. Raises SetUpError where that is a plug-in that cannot be used."""
    try:
        return kind_of(profile)
    except UnusablePlugin as error:
        raise SetUpError(f"Profile `{name}`: {error}.") from None


def connection_of(profile: ReachedProfile, key: str | None) -> Connection:
    return Connection(
        model=profile.model,
        api_key=key,
        base_url=profile.base_url,
        max_in_flight=profile.max_in_flight,
        temperature=profile.temperature,
        check_model=profile.check_model,
        native=profile.dialect != "prompted",
        credential=profile.credential,
    )
