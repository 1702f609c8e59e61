"""Encrypted connections, as the settings have them."""

from __future__ import annotations

import ssl

from shared.config import TlsConfig
from shared.errors import ConfigError


def context_of(tls: TlsConfig, where: str) -> ssl.SSLContext:
    """What a connection is encrypted with. The server's certificate is always checked.

    Args:
        tls: the settings.
        where: their section, for messages.

    Raises:
        ConfigError: a file cannot be read, or holds no certificate or key.
    """
    try:
        context = ssl.create_default_context(cafile=tls.ca or None)
        if tls.cert:
            context.load_cert_chain(tls.cert, tls.key)
    except OSError as e:  # that of ssl is one, too
        files = ", ".join(filter(None, (tls.ca, tls.cert, tls.key)))
        raise ConfigError(f"{where}: {files}: {e.strerror or e}; they must be PEM files that this user can read") from None
    return context


def check_scheme(tls: TlsConfig, url: str, scheme: str, where: str) -> None:
    """Raises ConfigError where certificates are set for a URL that would be spoken to in the clear."""
    if tls != TlsConfig() and any(not one.strip().startswith(f"{scheme}://") for one in url.split(",")):
        raise ConfigError(f"{where}.tls is set, but {where}.url does not begin with {scheme}://, which would not be encrypted")
