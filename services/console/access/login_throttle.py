"""Limits how fast tokens may be tried, from one address and from all; pure."""

from ipaddress import IPv6Address

from services.console.access.client_address import parsed_address

BURST = 10  # tokens of an address that are looked at without a wait
INTERVAL_S = 1.0  # between tries after that: 3,600 an hour
WAIT_S_MAX = 5.0  # more of them than fit into this are refused unread, right ones too
STRANGERS_BURST = 100  # the same for all addresses together that have had no login
STRANGERS_INTERVAL_S = 0.1  # 36,000 an hour
ADDRESSES_MAX = 10_000  # remembered; beyond that the oldest is forgotten
_NETWORK_BITS = 64  # of IPv6: one network is one user's


class LoginThrottle:
    """For each address, when its next try is due if every one takes INTERVAL_S.

    Addresses from which someone was let in do not count among the strangers: many others cannot
    use up what all of them have together and shut an operator out.
    """

    def __init__(self) -> None:
        self._due_s: dict[str, float] = {}
        self._strangers_due_s = 0.0
        self._known: dict[str, None] = {}

    def wait_s(self, address: str | None, now_s: float) -> float | None:
        """How long this try has to wait before it is looked at; None if it is refused unread."""
        name = _named(address)
        due_s = max(self._due_s.pop(name, now_s), now_s)
        self._due_s[name] = due_s
        if len(self._due_s) > ADDRESSES_MAX:
            del self._due_s[next(iter(self._due_s))]
        wait_s = max(0.0, due_s - now_s - (BURST - 1) * INTERVAL_S)
        if name not in self._known:
            strangers_s = max(self._strangers_due_s, now_s)
            wait_s = max(wait_s, strangers_s - now_s - (STRANGERS_BURST - 1) * STRANGERS_INTERVAL_S)
            if wait_s > WAIT_S_MAX:
                return None
            self._strangers_due_s = strangers_s + STRANGERS_INTERVAL_S
        if wait_s > WAIT_S_MAX:
            return None
        self._due_s[name] = due_s + INTERVAL_S
        return wait_s

    def let_in(self, address: str | None) -> None:
        """Someone was let in from there: that try does not count."""
        name = _named(address)
        self._known.pop(name, None)
        self._known[name] = None
        if len(self._known) > ADDRESSES_MAX:
            del self._known[next(iter(self._known))]
        if name in self._due_s:
            self._due_s[name] -= INTERVAL_S


def _named(address: str | None) -> str:
    found = parsed_address(address)
    if isinstance(found, IPv6Address):
        return str(int(found) >> _NETWORK_BITS)
    return "unknown" if found is None else str(found)
