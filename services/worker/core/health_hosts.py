"""Whether a question about health was meant for this worker, by its `Host`; pure.

A page in a browser can have its own name lead to our address, and read what we answer as
if it were its own. It cannot do so with an address for a name: probes and scrapes that use one are
always answered.
"""

from collections.abc import Iterable
from ipaddress import ip_address

ALWAYS = "localhost"


def is_meant(host: str | None, names: Iterable[str]) -> bool:
    """Whether `Host` is an address, `localhost` or one of `names`; `*.x` stands for all below x.

    No browser leaves `Host` out, so a client that does is not a web page.
    """
    if host is None:
        return True
    name = _without_port(host.strip().lower())
    if _is_address(name):
        return True
    name = name.rstrip(".")
    return any(_matches(name, known.lower().rstrip(".")) for known in (ALWAYS, *names))


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0] if host.count(":") == 1 else host


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _matches(name: str, known: str) -> bool:
    return name.endswith(known[1:]) and name != known[2:] if known[:2] == "*." else name == known
