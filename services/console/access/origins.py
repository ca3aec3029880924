"""The names of the console's host, and whether a request comes from its own pages; pure."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from services.settings.console import LOOPBACK

DEFAULT_PORTS = {"http": 80, "https": 443}  # which browsers leave out of `Host` and `Origin`
EVERY_ADDRESS = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared with, not listened at


@dataclass(frozen=True, slots=True)
class Origins:
    """The names under which the console is reached, as `Host` and `Origin` give them."""

    hosts: frozenset[str]
    origins: frozenset[str]

    def is_host(self, host: str | None) -> bool:
        """Whether a request was meant for us; a name that was rebound to our address was not."""
        return (host or "").lower() in self.hosts

    def is_own(self, origin: str | None, fetch_site: str | None) -> bool:
        """Whether a form was sent from a page of ours; without either header it is not known."""
        if origin is not None:
            return origin.lower() in self.origins and fetch_site in (None, "same-origin")
        return fetch_site == "same-origin"

    def address_of(self, host: str) -> str:
        """Our origin by that name, with TLS if there is one; the name must be known."""
        named = (f"{scheme}://{host.lower()}" for scheme in ("https", "http"))
        return next(origin for origin in named if origin in self.origins)


def origins_of(host: str, port: int, public_url: str | None, scheme: str = "http") -> Origins:
    """Of the address that is listened on, and of the URL that a proxy in front is reached by."""
    names = LOOPBACK if host in LOOPBACK else {host}
    if host in EVERY_ADDRESS:
        names = LOOPBACK  # of the others we do not know by which names we are reached
    bare = {f"[{name}]" if ":" in name else name for name in names}
    hosts = {f"{name}:{port}" for name in bare} | (bare if port == DEFAULT_PORTS[scheme] else set())
    origins = {f"{scheme}://{name}" for name in hosts}
    if public_url:
        parts = urlsplit(public_url.lower())
        name = (parts.hostname or "").encode("idna").decode()
        name = f"[{name}]" if ":" in name else name
        if parts.port not in (None, DEFAULT_PORTS[parts.scheme]):
            name = f"{name}:{parts.port}"
        hosts.add(name)
        origins.add(f"{parts.scheme}://{name}")
    return Origins(frozenset(hosts), frozenset(origins))


def advice_on(host: str, public_url: str | None) -> str | None:
    """Settings missing before browsers elsewhere reach the console; None if nothing is."""
    if host not in EVERY_ADDRESS or public_url:
        return None
    return (
        f"It listens at every address ({host}), and answers browsers on this machine alone: set "
        "`console.public_url` to the address that is typed into a browser, such as "
        '"https://answers.acme.example" or "http://10.0.0.7:8090".'
    )
