"""Certificates made for one test: an authority, and what it signs, as PEM files."""

from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

BORN = datetime(2020, 1, 1, tzinfo=UTC)
ENDS = datetime(2120, 1, 1, tzinfo=UTC)

_SIGNS_CERTIFICATES = x509.KeyUsage(
    *(False,) * 5, key_cert_sign=True, crl_sign=False, encipher_only=False, decipher_only=False
)


@dataclass(frozen=True)
class Signed:
    """A certificate and its key, in files; `both` has them one after the other."""

    certificate: Path
    key: Path
    both: Path


class Authority:
    """Signs certificates; its own lies in `file`.

    `is_careless`: without the extensions that RFC 5280 asks for and Python 3.11 does not.
    """

    def __init__(
        self, folder: Path, name: str, ends: datetime = ENDS, *, is_careless: bool = False
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._name, self._is_careless = folder, _named(name), is_careless
        self._key = ec.generate_private_key(ec.SECP256R1())
        own = _builder(self._name, self._name, self._key.public_key(), ends)
        own = own.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self._key_id = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        if not is_careless:
            own = own.add_extension(_SIGNS_CERTIFICATES, critical=True)
            own = own.add_extension(self._key_id, critical=False)
        self._certificate = own.sign(self._key, hashes.SHA256())
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def signs(
        self, name: str, password: str | None = None, host: str = "127.0.0.1", ends: datetime = ENDS
    ) -> Signed:
        """A certificate for `name` at `host`; its key is encrypted if there is a pass phrase."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_named(name), self._name, key.public_key(), ends)
        where = x509.SubjectAlternativeName([x509.IPAddress(ip_address(host))])
        builder = builder.add_extension(where, critical=False)
        if not self._is_careless:
            issuer = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(self._key_id)
            builder = builder.add_extension(issuer, critical=False)
        signed = builder.sign(self._key, hashes.SHA256())
        certificate = signed.public_bytes(serialization.Encoding.PEM)
        encryption: serialization.KeySerializationEncryption = (
            serialization.BestAvailableEncryption(password.encode())
            if password
            else serialization.NoEncryption()
        )
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
        )
        files = Signed(*(self._folder / f"{name}.{end}" for end in ("crt", "key", "pem")))
        files.certificate.write_bytes(certificate)
        files.key.write_bytes(private)
        files.both.write_bytes(private + certificate)
        return files


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, ends: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(BORN)
        .not_valid_after(ends)
    )
