"""The keys of profiles, from variables or from files."""

from collections.abc import Mapping

from services.settings.profiles import Profile, ReachedProfile, ScriptedProfile
from services.settings.secret_file import SecretFile
from services.settings.secrets import secret_file
from services.settings.settings import SetUpError, secret


def key_files(profiles: Mapping[str, Profile]) -> tuple[dict[str, SecretFile], dict[str, str]]:
    """The file with the key of each profile that has one, or why it is of no use."""
    files, faults = {}, {}
    for name, profile in profiles.items():
        if isinstance(profile, ScriptedProfile) or profile.api_key_file is None:
            continue
        try:
            files[name] = secret_file(profile.api_key_file, f"profiles.{name}.api_key_file")
        except SetUpError as error:
            faults[name] = f"Profile `{name}`: {error}"
    return files, faults


def key_of(name: str, profile: ReachedProfile) -> str | None:
    """The key of a profile; a server of one's own may need none, but what is named is there."""
    if profile.credential:
        return None
    key = secret(profile.api_key_env)
    needs_key = profile.names_key_variable or not profile.has_own_server
    if profile.api_key_env and key is None and needs_key:
        own_server = profile.has_own_server
        without = f", or leave `profiles.{name}.api_key_env` out if it needs none" * own_server
        raise SetUpError(
            f"Profile `{name}`: the variable {profile.api_key_env} is not set; put the "
            f"key there, or name another variable in `profiles.{name}.api_key_env`{without}."
        )
    return key
