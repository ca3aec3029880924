"""All credentials by name: those that ship, and those of installed distributions."""

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec

from services.settings.installed import UnusablePlugin, loaded, require_free
from services.worker.adapters.providers.credentials.credential import Credential

GROUP = "answerbus.credentials"
# The package that a credential needs, whose extra has its name; none is loaded before a token.
NEEDS: Mapping[str, str] = {"aws": "botocore", "azure": "azure.identity", "google": "google.auth"}


def credential_named(name: str) -> Credential:
    """One of ours, else that of a distribution. Raises UnusablePlugin."""
    require_free(GROUP, NEEDS, "credential")
    if name in NEEDS:
        return _shipped(name)
    found = loaded(GROUP, name, "credential")
    if not callable(found):
        raise UnusablePlugin(
            f"the credential {name!r} is not a function from an audience to a token"
        )
    credential: Credential = found
    return credential


def _shipped(name: str) -> Credential:
    if not _is_there(NEEDS[name]):
        raise UnusablePlugin(
            f"the credential {name!r} needs a package that is not installed: "
            f"`pip install answerbus-services[{name}]`"
        )
    module = import_module(f"services.worker.adapters.providers.credentials.{name}")
    credential: Credential = module.token
    return credential


def _is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # of the package that it is in
        return False
