"""Who asks, and what he may do: API keys with roles.

A key is `hr_<id>_<secret>`, the secret 32 random bytes. The file keeps only the SHA-256 of the whole key: a slow hash
is for passwords that people choose, and would cost every request what an upload costs. Compared in constant time.

    [[keys]]
    id = "3f2a9c1b"
    client = "acme"
    roles = ["submit", "read"]
    sha256 = "..."

Without any key the service is open, but only on loopback, and never to a page of another origin in a browser.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import json
import os
import re
import secrets
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

from headrace.service.problems import Problem

_KEY = re.compile(r"hr_([0-9a-f]{8})_[A-Za-z0-9_-]{43}")
_CLIENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_NOBODY = "0" * 64
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="headrace"'}
TICKET_S = 60


class Role(StrEnum):
    """What a key may do: hand in and cancel; look; correct, approve and run again; everything, of every client."""

    SUBMIT = "submit"
    READ = "read"
    REVIEW = "review"
    ADMIN = "admin"


class KeysError(Exception):
    """The file of keys makes no sense; ends with exit code 2."""

    exit_code: ClassVar[int] = 2


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks.

    Attributes:
        client: the tenant; "" where no keys are configured.
        roles: what he may do.
        key_id: which key it was, for corrections and reviews; never the key.
    """

    client: str
    roles: frozenset[Role]
    key_id: str = ""

    def require(self, role: Role) -> None:
        """Refuses what the key is not for.

        Raises:
            Problem: 403.
        """
        if role not in self.roles and Role.ADMIN not in self.roles:
            raise Problem("forbidden", f"this needs a key with the role {role}")

    @property
    def sees(self) -> str | None:
        """Whose things this one sees: None for everybody's."""
        return None if Role.ADMIN in self.roles else self.client

    @property
    def who(self) -> str:
        """What stands in the ledger behind a correction or a review."""
        return f"{self.client}/{self.key_id}" if self.key_id else "local"


LOCAL = Principal("", frozenset(Role))


@dataclass(frozen=True, slots=True)
class Key:
    """One key as it is kept."""

    key_id: str
    principal: Principal
    sha256: str


@dataclass(frozen=True)
class Keys:
    """All keys, by id. Immutable: a reload makes new ones."""

    keys: Mapping[str, Key] = field(default_factory=dict)
    _ticket_secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    @classmethod
    def load(cls, path: Path, *, ticket_secret: bytes | None = None) -> Keys:
        """Reads the file of keys.

        Raises:
            KeysError: it cannot be read, may be read by others, or makes no sense.
        """
        try:
            if path.stat().st_mode & 0o007:
                raise KeysError(f"{path} may be read by everybody: chmod 600 {path}")
            told = tomllib.loads(path.read_text(encoding="utf-8"))
            keys = [_key(table) for table in told.get("keys", [])]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise KeysError(f"{path}: {type(error).__name__}: {error}") from error
        if not keys:
            raise KeysError(f"{path} has no [[keys]]: make one with headrace serve --keys {path} --new-key CLIENT:ROLE")
        if len({key.key_id for key in keys}) < len(keys):
            raise KeysError(f"{path} has two keys with the same id")
        found = {key.key_id: key for key in keys}
        return cls(found, ticket_secret) if ticket_secret else cls(found)

    @property
    def open(self) -> bool:
        """Whether there are no keys, so that everybody on this machine may do everything."""
        return not self.keys

    def principal(self, headers: Mapping[bytes, bytes], peer: str | None) -> Principal:
        """Who sends these headers.

        Raises:
            Problem: 401, no key or a wrong one; 403, the service is open and this comes from elsewhere.
        """
        if not self.keys:
            _require_local(headers, peer)
            return LOCAL
        token = _token(headers)
        match = _KEY.fullmatch(token)
        key = self.keys.get(match[1]) if match else None
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
        # Compared whether or not the id is known, so that the time tells nothing about it.
        right = hmac.compare_digest(digest, key.sha256 if key else _NOBODY)
        if key is None or not right:
            detail = "this key is not known here" if token else "send a key: Authorization: Bearer hr_..."
            raise Problem("unauthorized", detail, headers=_CHALLENGE)
        return key.principal

    def ticket(self, principal: Principal) -> str:
        """A pass for `GET /v1/events?ticket=`, where no header can be sent; good for a minute, and only there."""
        told = json.dumps([principal.client, sorted(principal.roles), principal.key_id, int(time.time()) + TICKET_S])
        body = base64.urlsafe_b64encode(told.encode()).decode().rstrip("=")
        return f"{body}.{self._mark(body)}"

    def of_ticket(self, ticket: str) -> Principal:
        """Who the ticket was made for.

        Raises:
            Problem: 401, it is not ours or too old.
        """
        body, _, mark = ticket.partition(".")
        if not body.isascii() or not hmac.compare_digest(mark.encode("utf-8", "replace"), self._mark(body).encode()):
            raise Problem("unauthorized", "this ticket is not ours; ask for another", headers=_CHALLENGE)
        client, roles, key_id, until = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        if time.time() > until:
            raise Problem("unauthorized", "this ticket is too old; ask for another", headers=_CHALLENGE)
        return Principal(client, frozenset(map(Role, roles)), key_id)

    def reloaded(self, path: Path) -> Keys:
        """The keys as the file has them now; tickets that are out stay good."""
        return Keys.load(path, ticket_secret=self._ticket_secret)

    def _mark(self, body: str) -> str:
        return hmac.new(self._ticket_secret, body.encode(), hashlib.sha256).hexdigest()


def make_key(path: Path, told: str) -> str:
    """Makes a key for `CLIENT:ROLE,ROLE` and appends it to the file, which is made when it is not there.

    Returns:
        The key itself: shown once, kept nowhere.

    Raises:
        KeysError: the client or a role makes no sense, or the file cannot be written.
    """
    client, _, names = told.partition(":")
    roles = [name.strip() for name in names.split(",")]
    if not _CLIENT.fullmatch(client) or any(name not in list(Role) for name in roles):
        raise KeysError(f"{told!r} is not CLIENT:ROLE,ROLE with the roles {', '.join(Role)}")
    key_id = secrets.token_hex(4)
    key = f"hr_{key_id}_{secrets.token_urlsafe(32)}"
    lines = (
        f'[[keys]]\nid = "{key_id}"\nclient = "{client}"\nroles = {json.dumps(roles)}\n'
        f'sha256 = "{hashlib.sha256(key.encode()).hexdigest()}"\n\n'
    )
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8") as file:
            file.write(lines)
    except OSError as error:
        raise KeysError(f"{path}: {error.strerror}") from error
    return key


@lru_cache(maxsize=1024)
def is_loopback(host: str) -> bool:
    """Whether this name or address is this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _key(table: Mapping[str, object]) -> Key:
    unknown = sorted(table.keys() - {"id", "client", "roles", "sha256"})
    if unknown:
        raise ValueError(f"a key has no {unknown[0]}")
    key_id, client, roles, sha256 = (table[name] for name in ("id", "client", "roles", "sha256"))
    if not (isinstance(key_id, str) and re.fullmatch(r"[0-9a-f]{8}", key_id)):
        raise ValueError(f"the id {key_id!r} is not 8 hex digits")
    if not (isinstance(sha256, str) and re.fullmatch(r"[0-9a-f]{64}", sha256)):
        raise ValueError(f"the sha256 of {key_id} is not 64 hex digits")
    if not (isinstance(client, str) and _CLIENT.fullmatch(client)):
        raise ValueError(f"the client {client!r} is no name")
    if not (isinstance(roles, list) and roles):
        raise ValueError(f"{key_id} has no roles")
    return Key(key_id, Principal(client, frozenset(Role(role) for role in roles), key_id), sha256)


def _token(headers: Mapping[bytes, bytes]) -> str:
    scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    if scheme.lower() == "bearer":
        return token.strip()
    return headers.get(b"x-api-key", b"").decode("latin-1").strip()


def _require_local(headers: Mapping[bytes, bytes], peer: str | None) -> None:
    # Checked on every request: a page in a browser on this machine can reach loopback, too, by its own form or by a
    # name that it makes point here (DNS rebinding).
    host = urlsplit("//" + headers.get(b"host", b"localhost").decode("latin-1")).hostname or ""
    origin = headers.get(b"origin")
    foreign_page = origin is not None and not is_loopback(urlsplit(origin.decode("latin-1")).hostname or "")
    if (peer is not None and not is_loopback(peer)) or not is_loopback(host) or foreign_page:
        raise Problem("forbidden", "without keys this service answers only to this machine: headrace serve --keys FILE")
