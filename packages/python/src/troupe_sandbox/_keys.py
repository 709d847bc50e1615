"""Keys and amounts in the text forms of NEAR."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Union

from nacl.signing import SigningKey

_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_AMOUNT = re.compile(r"(\d+)(?:\.(\d{0,24}))?", re.ASCII)


def base58(data: bytes) -> str:
    """Encodes bytes in base58, as NEAR writes keys and hashes."""
    number, text = int.from_bytes(data, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        text = _ALPHABET[digit] + text
    return "1" * (len(data) - len(data.lstrip(b"\0"))) + text


def from_base58(text: str) -> bytes:
    """Decodes base58. Raises ValueError for other characters."""
    number = 0
    for c in text:
        digit = _ALPHABET.find(c)
        if digit < 0:
            raise ValueError(f"{c!r} is not a character of base58")
        number = number * 58 + digit
    return b"\0" * (len(text) - len(text.lstrip("1"))) + number.to_bytes((number.bit_length() + 7) // 8, "big")


@dataclass(frozen=True)
class KeyPair:
    """An ed25519 key pair in the text forms that py-near and other clients read."""

    #: "ed25519:" and base58 of the seed and the public key: 64 bytes.
    secret_key: str = field(repr=False)
    #: "ed25519:" and base58 of 32 bytes.
    public_key: str


@dataclass(frozen=True)
class Account:
    """An account with a full access key."""

    account_id: str
    secret_key: str = field(repr=False)
    public_key: str


def _pair(key: SigningKey) -> KeyPair:
    public = bytes(key.verify_key)
    return KeyPair("ed25519:" + base58(bytes(key) + public), "ed25519:" + base58(public))


def signing_key(secret_key: str) -> SigningKey:
    """Reads a secret key "ed25519:..." of 64 bytes (or 32: the seed alone). Raises ValueError if it is none."""
    data = from_base58(secret_key[8:]) if secret_key.startswith("ed25519:") else b""
    if len(data) not in (32, 64):
        raise ValueError("a secret key must be ed25519: and 64 bytes in base58")
    return SigningKey(data[:32])


def random_key_pair() -> KeyPair:
    """Makes a random key pair."""
    return _pair(SigningKey.generate())


def key_pair_from_seed(word: str) -> KeyPair:
    """Derives a key pair from a word, as nearcore's from_seed and `troupe keys new --seed` do.

    Any program can derive it, so it is only for tests. The client commands of troupe find keys that are derived from
    the account's name.
    """
    return _pair(SigningKey(word.encode()[:32].ljust(32)))


def key_pair_from_secret(secret_key: str) -> KeyPair:
    """Returns the key pair of a secret key. Raises ValueError if it is none."""
    return _pair(signing_key(secret_key))


def near(amount: Union[str, int, Decimal]) -> int:
    """Converts NEAR to yoctoNEAR: near("1.5") is 1500000000000000000000000."""
    text = format(amount, "f") if isinstance(amount, Decimal) else str(amount).replace("_", "")
    m = _AMOUNT.fullmatch(text)
    if not m or isinstance(amount, float):
        raise ValueError(f"{amount!r} is no amount of NEAR: must be digits with at most 24 decimals, as str, int or Decimal")
    return int(m[1] + (m[2] or "").ljust(24, "0"))
