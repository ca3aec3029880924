"""The certificate of our own servers, read again when its files change."""

import logging
import ssl
from pathlib import Path

from services.settings.secret_file import file_state

HANDSHAKE_S_MAX = 10.0

_log = logging.getLogger(__name__)


class UnusableCertificate(Exception):
    """The files hold no certificate with its key; the text says why."""


class ServerCertificate:
    """`context` is for the server; each connection gets what the files hold when it comes.

    Files that cannot be used, such as a new certificate whose key is not yet there, change nothing.
    """

    def __init__(self, certificate: Path, key: Path | None) -> None:
        """Raises UnusableCertificate. Without `key` the first file holds both."""
        self._certificate, self._key = certificate, key or certificate
        self._seen = self._state()
        self._current = self._read()
        self.context = self._read()
        self.context.sni_callback = self._chosen

    def _chosen(self, connection: ssl.SSLObject, _name: str | None, _: ssl.SSLContext) -> None:
        """Called at each handshake, also by those that name no server."""
        state = self._state()
        if state != self._seen:
            self._seen = state  # before: what is written meanwhile is another state
            try:
                self._current = self._read()
                _log.info("read the certificate %s again", self._certificate)
            except UnusableCertificate as error:
                _log.warning("the certificate stays as it was: %s", error)
        connection.context = self._current

    def _read(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(self._certificate, self._key, password=_locked)
        except (OSError, ssl.SSLError) as error:
            reason = getattr(error, "reason", None) or error.strerror or type(error).__name__
            files = f"{self._certificate}, {self._key}"
            raise UnusableCertificate(f"{files} cannot be used ({reason})") from None
        return context

    def _state(self) -> tuple[tuple[int, ...], ...]:
        return tuple(file_state(path) for path in (self._certificate, self._key))


def _locked() -> str:
    """Without it OpenSSL would ask the terminal."""
    raise UnusableCertificate("its key is encrypted: name a key that is not")
