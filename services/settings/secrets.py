"""The secrets that the settings refer to: in variables, files and addresses."""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

from answerbus.masking import Mask
from services.settings.profiles import Profile, ScriptedProfile
from services.settings.secret_file import ChangingSecret, SecretFile, UnreadableSecret
from services.settings.settings import Settings, SetUpError, secret


def secrets_of(settings: Settings) -> list[str]:
    """All secrets that these settings lead to, for what must not show them."""
    console = settings.console
    named = (
        settings.kafka.sasl_plain_password_env,
        settings.kafka.ssl_password_env,
        settings.kafka.sasl_token_env,
        settings.worker.prompt_secret_env,
        console.operator_token_env,
        console.viewer_token_env,
        *console.operators.values(),
        *console.approvers.values(),
        console.oidc.client_secret_env if console.oidc else None,
    )
    return [*filter(None, map(secret, named)), *secrets_of_profiles(settings.profiles)]


def secrets_of_profiles(profiles: Mapping[str, Profile]) -> list[str]:
    """Their keys, and the names and passwords in their addresses."""
    return [one for profile in profiles.values() for one in _secrets_of(profile) if one]


def _secrets_of(profile: Profile) -> Iterable[str | None]:
    if isinstance(profile, ScriptedProfile):
        return ()
    key = None if profile.api_key_file else secret(profile.api_key_env)
    before_host = _USER_INFO.match(profile.base_url or "")
    if before_host is None:
        return (key,)
    # A token may be in the place of either, and with `%` or without.
    user, _, password = before_host[1].partition(":")
    return (key, user, password, unquote(user), unquote(password))


def secret_file(path: Path, setting: str) -> SecretFile:
    """The file that a setting names. Raises SetUpError."""
    try:
        return SecretFile(path)
    except UnreadableSecret as error:
        raise SetUpError(
            f"The secret of `{setting}` is not there ({error}): put it into that file, or name "
            "another."
        ) from None


def _secret_files_of(settings: Settings) -> list[SecretFile]:
    """All files with secrets that these settings name, as far as they can be read."""
    kafka = settings.kafka
    of_profiles = (
        None if isinstance(profile, ScriptedProfile) else profile.api_key_file
        for profile in settings.profiles.values()
    )
    of_kafka = (kafka.sasl_plain_password_file, kafka.sasl_token_file, kafka.ssl_password_file)
    oidc = settings.console.oidc
    found = []
    for path in {*of_kafka, *of_profiles, oidc.client_secret_file if oidc else None}:
        with suppress(UnreadableSecret):
            found += [SecretFile(path)] if path else []
    return found


# Also of an address that is none, which is shown where the profile is checked.
_USER_INFO = re.compile(r"(?:[^/?#]*//)?([^/?#]*)@")


class LiveMask(Mask):
    """Replaces the given secrets, and all values that files and tokens are known to have had."""

    def __init__(self, secrets: Iterable[str | None], files: Sequence[ChangingSecret]) -> None:
        self._secrets: tuple[str | None, ...] = ()
        self._files: tuple[ChangingSecret, ...] = ()
        self._known: tuple[tuple[str, ...], ...] = ()
        self.learn(secrets, files)

    def learn(self, secrets: Iterable[str | None], files: Sequence[ChangingSecret]) -> None:
        """Mask these too; what was a secret once is masked for good."""
        self._secrets = tuple(dict.fromkeys((*self._secrets, *secrets)))
        self._files = tuple(dict.fromkeys((*self._files, *files)))
        self._learn()

    def __call__(self, text: str) -> str:
        for file in self._files:
            _ = file.value  # looks at the file
        if self._known != tuple(file.values for file in self._files):
            self._learn()
        return super().__call__(text)

    def __reduce__(self) -> tuple[type[Mask], tuple[list[str | None]]]:
        """For another process: a mask of the secrets that are known now, without the files."""
        return Mask, (self._all_known(),)

    def _learn(self) -> None:
        self._known = tuple(file.values for file in self._files)
        super().__init__(self._all_known())

    def _all_known(self) -> list[str | None]:
        return [*self._secrets, *(value for values in self._known for value in values)]


def mask_of(settings: Settings) -> LiveMask:
    """Masks all secrets that the settings lead to, in variables and in files."""
    return LiveMask(secrets_of(settings), _secret_files_of(settings))
