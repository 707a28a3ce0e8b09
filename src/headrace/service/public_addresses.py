"""Which addresses on the network we may be sent to by somebody else: public ones, and those that the operator allows.

A name is resolved once, and what was checked is what is connected to: a name that says something else a moment later
(DNS rebinding) gains nothing.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Sequence[str]]
"""A host and a port to its addresses. May take its time: it is called in a thread."""

_THREADS = 32  # names that are being looked up; a resolver that hangs takes its own time to give up
_INSIDE = tuple(
    ipaddress.ip_network(network)
    for network in (
        "192.0.0.0/24",  # special purposes, and the metadata of one cloud
        "168.63.129.16/32",  # the metadata of another, at an address that looks public
        "192.88.99.0/24",
        "64:ff9b::/96",  # these carry any IPv4 address inside of them
        "64:ff9b:1::/48",
        "2002::/16",
        "2001::/23",
        "fec0::/10",
    )
)


class AddressRefused(Exception):
    """This address is not one that we let ourselves be sent to; the message says why."""


@dataclass(frozen=True, slots=True)
class Target:
    """An address that was looked at.

    Attributes:
        url: as it was given.
        host, port: who is meant; for the Host header and the certificate.
        address: where to connect.
    """

    url: str
    host: str
    port: int
    address: Address


def system_resolve(host: str, port: int) -> list[str]:
    """The addresses that the system's resolver gives, in its order."""
    return [str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


class Addresses:
    """Decides where we may go.

    Args:
        allow: hosts and networks that are allowed although they are not public.
        resolve: for tests.
    """

    def __init__(self, allow: Sequence[str] = (), resolve: Resolve = system_resolve) -> None:
        self._resolve = resolve
        self._hosts: set[str] = set()
        self._networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
        self._busy = threading.Semaphore(_THREADS)
        for one in allow:
            try:
                self._networks.append(ipaddress.ip_network(one))
            except ValueError:
                self._hosts.add(_plain(one))

    def check(self, url: str) -> SplitResult:
        """Looks at what can be seen without asking anybody: form, scheme, and an address in the place of a name.

        Raises:
            AddressRefused: not this one.
        """
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname, parts.port
            name = (host or "").encode("idna").decode("ascii")
        except (ValueError, UnicodeError):
            raise AddressRefused("this is no URL") from None
        if not url.isascii() or any(c.isspace() or not c.isprintable() for c in url):
            raise AddressRefused("a URL has no spaces and only ASCII")
        if parts.scheme not in ("http", "https") or not name:
            raise AddressRefused("only https: addresses with a host are possible")
        if parts.username is not None or parts.password is not None:
            raise AddressRefused("a name and a password in an address end up in logs")
        literal = _literal(host or "")
        if literal is not None:
            self._require(literal)
        elif parts.scheme == "http" and _plain(name) not in self._hosts:
            raise AddressRefused("http: is for hosts that the operator allows; use https:")
        if literal is not None and parts.scheme == "http" and not self._is_allowed(literal):
            raise AddressRefused("http: is for addresses that the operator allows; use https:")
        return parts

    async def target(self, url: str) -> Target:
        """Resolves once, and gives one address to connect to.

        Raises:
            AddressRefused: it is not public, or one of its addresses is not: a name that has both is a trap.
            OSError: the name cannot be resolved now.
        """
        parts = self.check(url)
        host = parts.hostname or ""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        literal = _literal(host)
        if literal is not None:
            return Target(url, host, port, literal)
        found = [ipaddress.ip_address(text.partition("%")[0]) for text in await self._in_thread(host, port)]
        if not found:
            raise OSError(f"{host} has no address")
        if _plain(host) not in self._hosts:
            for address in found:
                self._require(address)
        return Target(url, host, port, found[0])

    def _require(self, address: Address) -> None:
        if not is_public(address) and not self._is_allowed(address):
            raise AddressRefused(f"{address} is not a public address")

    def _is_allowed(self, address: Address) -> bool:
        return any(address in network for network in self._networks)

    async def _in_thread(self, host: str, port: int) -> Sequence[str]:
        """Cancelled, the thread goes on until the resolver gives up; how many may is bounded.

        A thread of its own, and one that does not keep the process from ending: the resolver may hang for a minute.
        """
        if not self._busy.acquire(blocking=False):
            raise OSError("too many names are being looked up; the resolver does not answer")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Sequence[str]] = loop.create_future()

        def settle(answer: Sequence[str] | None, error: Exception | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(answer or ())

        def look() -> None:
            answer: Sequence[str] | None = None
            problem: Exception | None = None
            try:
                answer = self._resolve(host, port)
            except Exception as error:
                problem = error
            finally:
                self._busy.release()
            try:
                loop.call_soon_threadsafe(settle, answer, problem)
            except RuntimeError:  # the loop is closed: nobody waits any more
                return

        threading.Thread(target=look, name="headrace-name", daemon=True).start()
        return await future


def is_public(address: Address) -> bool:
    """Whether an address is one of the public network, and nothing of ours hides behind it."""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return is_public(address.ipv4_mapped)
    if not address.is_global or address.is_multicast or address.is_reserved:
        return False
    return not any(address in network for network in _INSIDE)


def _literal(host: str) -> Address | None:
    """The address that stands in the place of a name; also as the C library reads numbers: `127.1`, `0x7f000001`."""
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        pass
    try:
        return ipaddress.IPv4Address(socket.inet_aton(host)) if not any(c.isspace() for c in host) else None
    except OSError:
        return None


def _plain(host: str) -> str:
    return host.rstrip(".").lower()
