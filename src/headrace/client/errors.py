"""How a call of the client ends when it does not succeed, and what the server said about it.

ClientError
  Unreachable          no answer: the connection could not be made, or broke, as often as it was tried
  DeadlinePassed       the total deadline is over, or no further attempt could begin in time; says what came last
  UnexpectedAnswer     an answer that no headrace service gives: is the address right?
  ProblemError         the server said no; `problem` is what it said (RFC 9457)
    Busy               429: load, or this client's own quota
    Unavailable        503: an outage (draining, disk full, store down)
    NotAllowed         401, 403: the API key
    NotFound           404: unknown, or another client's
    Conflict           409, 412, 428: not as things stand
    Rejected           400, 408, 410, 413, 415, 422, ...: this request is not taken, however often it is sent
    ServerFailed       500 and the other 5xx: a bug over there; `problem.trace_id` finds it in the log
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class Problem:
    """What the server said (RFC 9457), or what stands for it when it said nothing that can be read.

    Attributes:
        status: of HTTP; 0 for what never was sent.
        code: the stable name, such as `queue-full`; `http-502` when something in between answered.
        title, detail: for people.
        retry_after_s: what Retry-After asked for; None when it was not there.
        trace_id: what finds it in the server's log.
        members: all of the problem as it came.
    """

    status: int
    code: str
    title: str = ""
    detail: str = ""
    retry_after_s: float | None = None
    trace_id: str = ""
    members: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        what = self.detail or self.title or "no reason was given"
        return f"{self.code} ({self.status}): {what}" if self.status else f"{self.code}: {what}"

    @classmethod
    def read(cls, status: int, content: bytes, retry_after_s: float | None) -> Problem:
        """The problem in an answer; never raises, whatever a proxy made of it."""
        try:
            told = json.loads(content)
        except (ValueError, RecursionError):
            told = None
        if not isinstance(told, dict):
            return cls(status, f"http-{status}", "", _one_line(content), retry_after_s)
        text = {name: str(told.get(name) or "") for name in ("code", "type", "title", "detail", "trace_id")}
        code = text["code"] or text["type"].rpartition("/")[2] or f"http-{status}"
        return cls(status, code, text["title"], text["detail"], retry_after_s, text["trace_id"], told)


class ClientError(Exception):
    """A call did not succeed; the message says why and what to do."""


class Unreachable(ClientError):
    """No answer came, as often as it was tried. Whether the last request arrived is not known; its key makes up."""


class DeadlinePassed(ClientError):
    """The deadline of the call is over. `problem` is what the server said last; None when it said nothing."""

    def __init__(self, detail: str, problem: Problem | None = None) -> None:
        super().__init__(f"{detail}; the last answer was {problem}" if problem else detail)
        self.problem = problem


class UnexpectedAnswer(ClientError):
    """No headrace service answers like this."""


class ProblemError(ClientError):
    """The server said no; `problem` has all of it."""

    statuses: ClassVar[frozenset[int]] = frozenset()

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


class Busy(ProblemError):
    """429: load, or this client's own quota. Nothing is wrong with the request."""

    statuses = frozenset({429})


class Unavailable(ProblemError):
    """503: an outage. Nothing is wrong with the request."""

    statuses = frozenset({503})


class NotAllowed(ProblemError):
    """401 or 403: no key, an unknown one, or one that may not do this."""

    statuses = frozenset({401, 403})


class NotFound(ProblemError):
    """404: there is no such thing, or it is another client's."""

    statuses = frozenset({404})


class Conflict(ProblemError):
    """409, 412, 428: not as things stand, such as a batch that takes no more documents."""

    statuses = frozenset({409, 412, 428})


class Rejected(ProblemError):
    """This request is not taken: a file that cannot be read, a digest that does not match, a malformed request."""


class ServerFailed(ProblemError):
    """500 and its like: a bug over there, or something in between that gave up."""


_KINDS: tuple[type[ProblemError], ...] = (Busy, Unavailable, NotAllowed, NotFound, Conflict)


def error_of(problem: Problem) -> ProblemError:
    """The problem as the error that is raised for it."""
    for kind in _KINDS:
        if problem.status in kind.statuses:
            return kind(problem)
    return ServerFailed(problem) if problem.status >= 500 else Rejected(problem)


def _one_line(content: bytes) -> str:
    return " ".join(content[:200].decode("utf-8", "replace").split())
