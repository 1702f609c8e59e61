"""Settings of encrypted connections."""

from __future__ import annotations

from shared.config.base import Section


class TlsConfig(Section, frozen=True, kw_only=True):
    """Certificates of a connection. Whether it is encrypted is said by the URL.

    Attributes:
        ca: file with the certificates (PEM) of who may vouch for the server; empty takes those that the machine trusts.
        cert: file with a certificate to show the server, where it asks for one; empty shows none.
        key: file with the private key of `cert`.
    """

    ca: str = ""
    cert: str = ""
    key: str = ""

    def __post_init__(self) -> None:
        """Checks what types cannot say."""
        if bool(self.cert) != bool(self.key):
            raise ValueError("tls.cert and tls.key belong together: set both, or neither")
