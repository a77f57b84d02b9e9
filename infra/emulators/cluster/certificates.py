"""The certificate authority of an emulated cluster, and the keys that it needs, as files in one directory.

Owns how they are made. Refuses to renew them: they are kept as long as the cluster's state is.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

_VALID = datetime.timedelta(days=3650)


@dataclass(frozen=True)
class Certificates:
    """`authority`: what clients trust. `served`: a directory with tls.crt and tls.key for 127.0.0.1."""

    directory: Path

    @property
    def authority(self) -> Path:
        return self.directory / "ca.crt"

    @property
    def served(self) -> Path:
        return self.directory / "served"

    @property
    def certificate(self) -> Path:
        return self.served / "tls.crt"

    @property
    def key(self) -> Path:
        return self.served / "tls.key"

    @property
    def service_account_key(self) -> Path:
        """Signs the tokens of service accounts."""
        return self.directory / "service-accounts.key"

    def make(self) -> None:
        """Nothing where they are there; the file that is written last says so."""
        if self.service_account_key.exists():
            return
        self.served.mkdir(parents=True, exist_ok=True)
        own = ec.generate_private_key(ec.SECP256R1())
        authority = _certificate("emulated cluster", own.public_key(), own, "emulated cluster")
        self.authority.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
        key = ec.generate_private_key(ec.SECP256R1())
        served = _certificate("127.0.0.1", key.public_key(), own, "emulated cluster")
        self.certificate.write_bytes(served.public_bytes(serialization.Encoding.PEM))
        _write_key(self.key, key)
        _write_key(self.service_account_key, rsa.generate_private_key(65537, 2048))


def _certificate(
    name: str, key: ec.EllipticCurvePublicKey, signs: ec.EllipticCurvePrivateKey, issuer: str
) -> x509.Certificate:
    """Of the authority itself where `name` is the issuer's, else of a server on this machine."""
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name(issuer))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + _VALID)
        .add_extension(x509.BasicConstraints(ca=name == issuer, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signs.public_key()), critical=False)
    )
    if name == issuer:
        builder = builder.add_extension(_signs_certificates(), critical=True)
    else:
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(signs, hashes.SHA256())


def _signs_certificates() -> x509.KeyUsage:
    return x509.KeyUsage(
        key_cert_sign=True,
        crl_sign=True,
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> None:
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(text)
