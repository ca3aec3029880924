"""The key that signs evidence: Ed25519 from a file, or a plug-in that keeps it elsewhere."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)

from answerbus.evidence.ed25519 import is_signed
from services.settings.settings import SetUpError

GROUP = "answerbus.signers"
PLUGIN = "plugin:"
KEY_FILE_BYTES_MAX = 16 * 1024


@dataclass(frozen=True, slots=True)
class EvidenceSigner:
    """A public key of 32 bytes, and what signs for it."""

    public_key: bytes
    _sign: Callable[[bytes], bytes]

    def sign(self, message: bytes) -> bytes:
        """Raises SetUpError where the signature is not right: it would be found too late."""
        signature = self._sign(message)
        if not is_signed(self.public_key, message, signature):
            raise SetUpError("The signer has made a signature that its own public key refuses.")
        return signature


def signer_of(named: str) -> EvidenceSigner:
    """`plugin:NAME`, or the path of a private key as PEM. Raises SetUpError."""
    if named.startswith(PLUGIN):
        return _plugin(named.removeprefix(PLUGIN))
    try:
        with Path(named).open("rb") as file:
            key = load_pem_private_key(file.read(KEY_FILE_BYTES_MAX), password=None)
    except OSError as error:
        raise SetUpError(f"The key {named} cannot be read: {error.strerror}.") from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise SetUpError(
            f"{named} is not an Ed25519 private key without a password: make one with "
            "`openssl genpkey -algorithm ed25519`."
        )
    public = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return EvidenceSigner(public, key.sign)


def _plugin(name: str) -> EvidenceSigner:
    """An object of a distribution with `public_key`, 32 bytes, and `sign(bytes) -> bytes`."""
    found = [*entry_points(group=GROUP, name=name)]
    if len(found) != 1:
        raise SetUpError(f"{len(found)} distributions bring a signer {name!r} ({GROUP}), not one.")
    try:
        signer: Any = found[0].load()
        return EvidenceSigner(bytes(signer.public_key), lambda message: bytes(signer.sign(message)))
    except Exception as error:  # the distribution's own code runs here
        raise SetUpError(f"The signer {name!r} cannot be used ({type(error).__name__}).") from error
