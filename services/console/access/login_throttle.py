"""Limits how fast one address may try tokens; pure."""

from ipaddress import IPv6Address, ip_address

BURST = 10  # wrong tokens of an address that are answered at once
INTERVAL_S = 1.0  # between tries after that
WAIT_S_MAX = 5.0  # more of them than fit into this are refused unread
ADDRESSES_MAX = 10_000  # remembered; beyond that the oldest is forgotten
_NETWORK_BITS = 64  # of IPv6: one network is one user's


class LoginThrottle:
    """For each address, when its next try is due if every wrong one takes INTERVAL_S."""

    def __init__(self) -> None:
        self._due_s: dict[str, float] = {}

    def wait_s(self, address: str | None, now_s: float) -> float | None:
        """How long this try has to wait before it is looked at; None if it is refused."""
        name = _named(address)
        due_s = max(self._due_s.pop(name, now_s), now_s)
        self._due_s[name] = due_s
        if len(self._due_s) > ADDRESSES_MAX:
            del self._due_s[next(iter(self._due_s))]
        wait_s = max(0.0, due_s - now_s - (BURST - 1) * INTERVAL_S)
        if wait_s > WAIT_S_MAX:
            return None
        self._due_s[name] = due_s + INTERVAL_S
        return wait_s


def _named(address: str | None) -> str:
    try:
        found = ip_address(address or "")
    except ValueError:
        return "unknown"
    if isinstance(found, IPv6Address):
        mapped = found.ipv4_mapped
        return str(mapped) if mapped else str(int(found) >> _NETWORK_BITS)
    return str(found)
