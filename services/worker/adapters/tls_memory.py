"""Bounds the memory of TLS connections: asyncio keeps 256 KiB for each, to read into."""

from asyncio.sslproto import SSLProtocol

READ_BYTES = 16 * 1024  # as much as a record of TLS can hold


def bound_tls_buffers() -> None:
    """For all connections to come: a worker has one for each call in flight."""
    SSLProtocol.max_size = READ_BYTES
