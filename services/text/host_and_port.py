"""HOST:PORT, as settings and options write it."""

PORT_MAX = 65_535
_PORT_CHARS = 5


def host_and_port(place: str) -> tuple[str, int] | None:
    """The parts of HOST:PORT; None if it is something else."""
    host, _, port = place.rpartition(":")
    is_port = port.isascii() and port.isdigit() and len(port) <= _PORT_CHARS
    if not host or not is_port or int(port) > PORT_MAX:
        return None
    return host, int(port)
