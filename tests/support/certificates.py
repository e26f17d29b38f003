"""An authority of a test's own, and certificates that it signs."""

import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """Signs server and client certificates; `pem` is what others trust it by."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder, self._name = folder, _name(name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        constraint = x509.BasicConstraints(ca=True, path_length=None)
        certificate = self._builder(self._name, self._key).add_extension(constraint, critical=True)
        self.pem = _pem(certificate.sign(self._key, hashes.SHA256()))

    def server_context(
        self, host: str = "127.0.0.1", *, wants_client: bool = False
    ) -> ssl.SSLContext:
        """For a server of that name, which asks for a certificate of this authority or not."""
        certificate, key = self.issue(host)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        (self._folder / "server.pem").write_bytes(certificate + key)
        context.load_cert_chain(self._folder / "server.pem")
        if wants_client:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(cadata=self.pem.decode())
        return context

    def issue(self, name: str) -> tuple[bytes, bytes]:
        """Certificate and key."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([_general_name(name)])
        certificate = self._builder(_name(name), key).add_extension(names, critical=False)
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return _pem(certificate.sign(self._key, hashes.SHA256())), private

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=1))
        )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _general_name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
