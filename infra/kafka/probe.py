"""Whether a broker is ready: it must answer a request, an open port is not enough."""

import socket
import struct

from infra.ports import LOOPBACK

_LIMIT_S = 5.0
# Metadata v1 (api 3) without topics: size, api, version, correlation id, no client id, 0 topics.
_METADATA_REQUEST = struct.pack(">ihhihi", 14, 3, 1, 1, -1, 0)
_HEAD = struct.Struct(">iii")  # of the answer: size, correlation id, number of running brokers


def answers(port: int) -> bool:
    """Whether a broker on this machine answers and counts itself among the running ones."""
    try:
        with (
            socket.create_connection((LOOPBACK, port), _LIMIT_S) as connection,
            connection.makefile("rb") as reply,
        ):
            connection.sendall(_METADATA_REQUEST)
            head = reply.read(_HEAD.size)
    except OSError:
        return False
    return len(head) == _HEAD.size and _HEAD.unpack(head)[2] > 0
