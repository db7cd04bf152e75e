"""Certificates for tests: a CA, and what it or nobody has signed, in PEM files of a directory."""

import datetime as dt
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = dt.timedelta(days=1)


class Authority:
    """A CA with a directory of its own, in which its certificate is `ca.crt`."""

    def __init__(self, directory, name="a CA for tests"):
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._sign(self._name, self._key.public_key(), DAY, is_ca=True)
        self.path = str(self.directory / "ca.crt")
        Path(self.path).write_bytes(pem(certificate))

    def _sign(self, name, public_key, lifetime, *, is_ca):
        now = dt.datetime.now(dt.UTC)
        # One that has expired has been valid until a while ago.
        begin = min(now - DAY, now + lifetime - DAY)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(now + lifetime)
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if not is_ca:
            names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, hashes.SHA256())

    def issue(self, common_name, *, lifetime=DAY, organization="Shop"):
        """Sign a certificate; return it and its key, each as PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization),
                x509.NameAttribute(NameOID.COMMON_NAME, common_name),
            ]
        )
        certificate = self._sign(name, key.public_key(), lifetime, is_ca=False)
        return pem(certificate), key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    def issue_into(self, directory, common_name, **options):
        """Write a certificate and its key as Kubernetes does; return the directory."""
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        certificate, key = self.issue(common_name, **options)
        (directory / "tls.crt").write_bytes(certificate)
        (directory / "tls.key").write_bytes(key)
        return str(directory)


def pem(certificate):
    return certificate.public_bytes(serialization.Encoding.PEM)
