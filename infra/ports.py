"""Ports of this machine: finds free ones, and checks whether one is taken."""

import random
import socket
from collections.abc import Iterable

from infra.setup_error import SetupError

LOOPBACK = "127.0.0.1"
# Below the range from which systems pick the ports of outgoing connections: a client that tries
# to reconnect to a dead server would else, once in a while, connect to itself and take the port.
_CHOICE = range(20_000, 32_000)
_CONNECT_LIMIT_S = 1.0


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Whether nothing listens on `port`, neither on `host` nor on all addresses."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError:
            return False
    # macOS lets one bind an address although another process listens on 0.0.0.0.
    with socket.socket() as client:
        client.settimeout(_CONNECT_LIMIT_S)
        return client.connect_ex((LOOPBACK, port)) != 0


def free_ports(count: int, other_than: Iterable[int] = ()) -> list[int]:
    """`count` different ports that are free right now; another process may still take one."""
    found: list[int] = []
    left_out = {*other_than}
    for port in random.sample(_CHOICE, len(_CHOICE)):
        if len(found) == count:
            break
        if port not in left_out and is_free(port):
            found.append(port)
    return found


class PortTakenError(SetupError):
    """Something else listens there; the command that was used says how to choose another."""

    def __init__(self, port: int) -> None:
        self.port = port  # the same in all commands; the option is not
        super().__init__(f"Port {port} is taken: stop what listens there, or choose another.")

    def with_option(self, option: str) -> str:
        """The message with what makes that command take another port."""
        return f"{self} {option} takes a free one."
