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


@dataclass(frozen=True)
class Signed:
    """A certificate and its key, in files; `both` has them one after the other."""

    certificate: Path
    key: Path
    both: Path


class Authority:
    """Signs certificates; its own lies in `file`."""

    def __init__(self, folder: Path, name: str, ends: datetime = ENDS) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._name = folder, _named(name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        own = _builder(self._name, self._name, self._key.public_key(), ends)
        own = own.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
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
        signed = builder.add_extension(where, critical=False).sign(self._key, hashes.SHA256())
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
