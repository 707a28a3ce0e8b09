"""One request and its answer over httpx. Reads no more than a bound, and makes of every "no" the error that it is."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import httpx

from headrace.client.errors import ClientError, Problem, ProblemError, UnexpectedAnswer, error_of
from headrace.flow import parse_retry_after

MOST_ANSWER_BYTES = 16 << 20
"""The longest answer, and the longest line of results, that is taken."""

CONNECT_S, SILENCE_S = 10.0, 60.0
"""How long a connection may take to open, and how long it may be silent; a stream says every 15 s that it is alive."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A success: status, headers, and the JSON object that came."""

    status: int
    headers: httpx.Headers
    told: Mapping[str, Any]

    @property
    def replayed(self) -> bool:
        """Whether nothing new was made: the server had it under this key."""
        return str(self.headers.get("Idempotency-Replayed", "")).lower() == "true"


class Connection:
    """Requests to one server. Belongs to one event loop.

    Args:
        url: where it is, such as `http://127.0.0.1:8080`.
        api_key: sent as `Authorization: Bearer`; None sends none.
        connections: how many there may be at once.
        transport: what carries requests instead of the network, for tests.
    """

    def __init__(
        self, url: str, api_key: str | None, *, connections: int, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        headers = {"User-Agent": "headrace-client"}
        if api_key:
            if not (api_key.isascii() and api_key.isprintable()):
                raise ClientError("the API key holds characters that no key has; was it copied whole?")
            headers["Authorization"] = f"Bearer {api_key}"
        self._http = httpx.AsyncClient(
            base_url=_checked(url),
            headers=headers,
            timeout=httpx.Timeout(SILENCE_S, connect=CONNECT_S),
            limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
            follow_redirects=False,
            transport=transport,
        )

    async def aclose(self) -> None:
        """Closes what is open."""
        await self._http.aclose()

    async def ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        headers: Mapping[str, str] | None = None,
        content: bytes | AsyncIterator[bytes] = b"",
        silence_s: float = SILENCE_S,
        empty: bool = False,
    ) -> Answer:
        """Makes one request.

        Args:
            method, path, params, headers, content: of the request.
            empty: the answer has headers and no JSON.
            silence_s: how long the server may take to answer.

        Raises:
            ProblemError: the server said no.
            httpx.TransportError: there was no answer.
            UnexpectedAnswer: it is not one of ours.
        """
        timeout = httpx.Timeout(SILENCE_S, connect=CONNECT_S, read=silence_s)
        options: dict[str, Any] = {"params": params, "headers": headers, "content": content, "timeout": timeout}
        async with self._http.stream(method, path, **options) as response:
            body = await _read(response)
        if not response.is_success:
            raise _error(response, body)
        if empty:
            return Answer(response.status_code, response.headers, {})
        try:
            told = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise UnexpectedAnswer(f"{path} answered {response.status_code} without JSON") from error
        if not isinstance(told, dict):
            raise UnexpectedAnswer(f"{path} answered {response.status_code} with something else than an object")
        return Answer(response.status_code, response.headers, told)

    @asynccontextmanager
    async def lines(self, path: str, *, params: Mapping[str, str | int]) -> AsyncIterator[AsyncIterator[bytes]]:
        """Opens a stream of lines; empty ones, which only say that it is alive, are left out.

        Raises:
            As `ask`; and `httpx.TransportError` while it is read when the connection breaks.
        """
        headers = {"Accept": "application/x-ndjson"}
        async with self._http.stream("GET", path, params=params, headers=headers) as response:
            if not response.is_success:
                raise _error(response, await _read(response))
            async with aclosing(_lines(response)) as lines:
                yield lines


async def _lines(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    rest = b""
    async with aclosing(cast("AsyncGenerator[bytes, None]", response.aiter_bytes())) as pieces:
        async for piece in pieces:
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                if line.strip():
                    yield line
            if len(rest) > MOST_ANSWER_BYTES:
                raise UnexpectedAnswer(f"a line of more than {MOST_ANSWER_BYTES} bytes")
    # What is left has no end: the connection broke, and the line is asked for again.


async def _read(response: httpx.Response) -> bytes:
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > MOST_ANSWER_BYTES:
            raise UnexpectedAnswer(f"an answer of more than {MOST_ANSWER_BYTES} bytes")
    return bytes(body)


def _error(response: httpx.Response, body: bytes) -> ProblemError:
    after_s = parse_retry_after(response.headers.get("Retry-After"), now_unix_s=time.time())
    return error_of(Problem.read(response.status_code, body, after_s))


def _checked(url: str) -> httpx.URL:
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, TypeError) as error:
        raise ClientError(f"{url!r} is no address: {error}") from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ClientError(f"{url!r} is no address; it looks like http://127.0.0.1:8080")
    if parsed.userinfo:
        raise ClientError("an address holds no user and no password: the API key goes into a header")
    return parsed
