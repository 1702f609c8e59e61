"""Nkeys: ed25519 keys as NATS writes them. The server knows the public half and is shown a signature, never the seed."""

from __future__ import annotations

import base64
import secrets
from dataclasses import dataclass, field

import nkeys

from shared.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Nkey:
    """A user's key.

    Attributes:
        seed: the secret half.
        public: what the server knows it by.
    """

    seed: str = field(repr=False)
    public: str

    def sign(self, nonce: str) -> str:
        """Proves to a server that the key is ours: it takes the signature of what it just made up."""
        signed = nkeys.from_seed(bytearray(self.seed.encode())).sign(nonce.encode())
        return base64.b64encode(signed).decode()


def nkey_of(seed: str, where: str) -> Nkey:
    """A key from its seed.

    Args:
        seed: its text.
        where: it was found, for messages.

    Raises:
        ConfigError: it is none of a user.
    """
    try:
        if not seed.startswith("SU"):
            raise nkeys.ErrInvalidSeed
        public = nkeys.from_seed(bytearray(seed.encode())).public_key
    except (nkeys.NkeysError, ValueError):
        raise ConfigError(f"{where} holds no seed of a user's nkey (58 characters that begin with SU)") from None
    return Nkey(seed, bytes(public).decode())


def new_seed() -> str:
    """The seed of a new key."""
    return str(nkeys.encode_seed(secrets.token_bytes(32), nkeys.PREFIX_BYTE_USER).decode())
