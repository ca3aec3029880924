"""TLS to Kafka: the authority, and our certificate with its key, read again when they change."""

import logging
import ssl
from typing import Any, Self

from services.settings.secret_file import file_state
from services.settings.secrets import secret_file
from services.settings.settings import KafkaSettings, SetUpError, secret

_log = logging.getLogger(__name__)


class ChangingTls(ssl.SSLContext):
    """What asyncio asks for TLS at each connection; it gets what the files hold by then.

    Files that cannot be used, such as a new certificate whose key is not yet there, change nothing.
    """

    def __new__(cls, _: KafkaSettings) -> Self:
        """As ssl.SSLContext wants it."""
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, settings: KafkaSettings) -> None:
        """Raises SetUpError."""
        self._settings = settings
        self._seen = self._state()
        self._current = _tls(settings)

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        """See ssl.SSLContext: called for each connection."""
        state = self._state()
        if state != self._seen:
            self._seen = state  # before: what is written meanwhile is another state
            try:
                self._current = _tls(self._settings)
                _log.info("read the certificates of Kafka again")
            except SetUpError as error:
                _log.warning("the certificates of Kafka stay as they were: %s", error)
        return self._current.wrap_bio(*args, **options)

    def _state(self) -> tuple[tuple[int, ...], ...]:
        kafka = self._settings
        files = (kafka.ssl_cafile, kafka.ssl_certfile, kafka.ssl_keyfile, kafka.ssl_password_file)
        return tuple(file_state(path) for path in files if path)


def _tls(settings: KafkaSettings) -> ssl.SSLContext:
    authority, certificate, key = settings.ssl_cafile, settings.ssl_certfile, settings.ssl_keyfile
    try:
        context = ssl.create_default_context(cafile=authority)
    except (OSError, ssl.SSLError) as error:
        raise _unusable(f"`kafka.ssl_cafile` ({authority})", error, "a PEM file") from None
    if certificate is None:
        if key is not None:
            raise SetUpError("`kafka.ssl_keyfile` needs `kafka.ssl_certfile` beside it.")
        return context
    phrase = _PassPhrase(settings)
    try:
        context.load_cert_chain(certificate, key, password=phrase)
    except (OSError, ssl.SSLError) as error:
        raise _of_own_certificate(settings, error, was_locked=phrase.was_asked) from None
    return context


class _PassPhrase:
    """Asked for only if the key is encrypted; without one the terminal would be asked."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._key = settings.ssl_keyfile or settings.ssl_certfile
        path = settings.ssl_password_file
        file = secret_file(path, "kafka.ssl_password_file") if path else None
        self._password = file.value if file else secret(settings.ssl_password_env)
        self.was_asked = False

    def __call__(self) -> str:
        self.was_asked = True
        if self._password:
            return self._password
        raise SetUpError(
            f"The key {self._key} is encrypted: put its pass phrase into a variable, and name "
            "that in `kafka.ssl_password_env`."
        )


def _of_own_certificate(settings: KafkaSettings, error: OSError, *, was_locked: bool) -> SetUpError:
    files = f"{settings.ssl_certfile}, {settings.ssl_keyfile}"
    if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
        return SetUpError(
            f"The key does not belong to the certificate ({files}): correct `kafka.ssl_certfile` "
            "or `kafka.ssl_keyfile`."
        )
    if was_locked:
        place = (
            "the file of `kafka.ssl_password_file`"
            if settings.ssl_password_file
            else "the variable that `kafka.ssl_password_env` names"
        )
        return SetUpError(f"The pass phrase does not open the key ({files}): correct {place}.")
    return _unusable(f"`kafka.ssl_certfile` or `kafka.ssl_keyfile` ({files})", error, "PEM files")


def _unusable(which: str, error: OSError, wanted: str) -> SetUpError:
    reason = getattr(error, "reason", None) or error.strerror or type(error).__name__
    return SetUpError(f"{which} cannot be used ({reason}): name {wanted} that can be read.")
