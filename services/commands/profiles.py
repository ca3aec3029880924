"""`answerbus profiles`: lists the profiles that requests can name."""

import re
from collections.abc import Mapping

import typer
from rich.table import Table
from rich.text import Text

from services.command_line import AsJson, Config, print_table, stderr, stdout
from services.settings.profiles import Profile, ReachedProfile, ScriptedProfile
from services.settings.settings import from_environment, secret
from services.text.escaping import json_lines

_SHOWN_APART = {
    *("provider", "model", "dialect", "base_url", "api_key_env", "api_key_file", "script", "price"),
    "then",
    "credential",
}


def profiles(*, as_json: AsJson = False, config: Config = None) -> None:
    """Show the profiles of the settings; keys and passwords are not shown."""
    found = from_environment(config).profiles
    if as_json:
        typer.echo(json_lines([_as_data(name, found[name]) for name in found]))
        return
    if not found:
        stderr().print(
            "The settings have no profiles: add a table [profiles.default].", markup=False
        )
        return
    table = Table("profile", "provider and model", "settings", show_lines=True)
    for name, profile in found.items():
        cells = (name, "\n".join(_who(profile)), "\n".join(_limits(profile)))
        table.add_row(*map(Text, cells))
    print_table(stdout(), table)


def _who(profile: Profile) -> list[str]:
    lines = [f"{profile.provider}, {profile.model}", f"dialect {profile.dialect}"]
    if isinstance(profile, ScriptedProfile):
        return [*lines, f"plays {profile.script}"]
    if profile.base_url:
        lines.append(f"at {_address(profile.base_url)}")
    if profile.credential:
        lines.append(f"tokens of the credential {profile.credential}")
    elif profile.api_key_file:
        lines.append(f"key in the file {profile.api_key_file}")
    elif profile.api_key_env:
        lines.append(_key_text(profile, profile.api_key_env))
    return lines


def _key_text(profile: ReachedProfile, variable: str) -> str:
    if secret(variable):
        return f"key in {variable}, which is set"
    if profile.has_own_server and not profile.names_key_variable:
        return "no key"
    return f"key in {variable}, which is not set"


def _limits(profile: Profile) -> list[str]:
    lines = [f"{name} {value}" for name, value in _plain(profile).items()]
    if profile.price:
        price = profile.price
        cached = "" if price.cached_usd is None else f", ${price.cached_usd:g} from a cache"
        text = f"${price.input_usd:g} in{cached}, ${price.output_usd:g} out"
        lines.append(f"a million tokens: {text}")
    fallbacks = (f"then {one.profile}: {', '.join(one.on)}" for one in profile.then)
    return [*lines, *fallbacks]


def _plain(profile: Profile) -> Mapping[str, object]:
    return profile.model_dump(mode="json", exclude=_SHOWN_APART, exclude_none=True)


def _as_data(name: str, profile: Profile) -> Mapping[str, object]:
    data = {"profile": name, **profile.model_dump(mode="json")}
    if isinstance(profile, ScriptedProfile):
        return data
    return {
        **data,
        "base_url": profile.base_url and _address(profile.base_url),
        "api_key_is_set": _is_set(profile),
    }


def _is_set(profile: ReachedProfile) -> bool | None:
    """Whether the key is where it should be; None for a profile without one."""
    if profile.api_key_file:
        return profile.api_key_file.exists()
    variable = None if profile.credential else profile.api_key_env
    return None if variable is None else secret(variable) is not None


def _address(url: str) -> str:
    """Without the name and the password that may be before its host."""
    return re.sub(r"^([^/?#]*//)?[^/?#]*@", r"\1…@", url)
