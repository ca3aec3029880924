"""The address of a browser: that of its connection, or the one that a trusted proxy names; pure."""

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

HOPS_MAX = 20  # of a chain of proxies that are looked at

Network = IPv4Network | IPv6Network


def client_address(
    peer: str | None, forwarded: Iterable[str], proxies: Sequence[Network]
) -> str | None:
    """The last address that does not belong to a proxy; None where it is not an address.

    `forwarded` has the values of `X-Forwarded-For`: each proxy adds the address that it was asked
    from. Entries before an untrusted address may be forged.
    """
    found = parsed_address(peer)
    hops = [hop for value in forwarded for hop in value.split(",")]
    for hop in reversed(hops[-HOPS_MAX:]):
        if found is None or not any(found in network for network in proxies):
            break
        found = parsed_address(hop.strip())
    return None if found is None else str(found)


def parsed_address(text: str | None) -> IPv4Address | IPv6Address | None:
    """IPv4 also where it is written as IPv6, as a socket for both reports it."""
    try:
        found = ip_address(text or "")
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, IPv6Address) else found
