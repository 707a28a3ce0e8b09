"""How flow control says no.

    FlowError
      Refusal                what you offered was not taken: it comes back as `item`
        Full                 no room now: offer it again after `retry_after_s`
        Closed               no more comes in: whoever offers must stop
        Expired              the caller's own deadline passed first
        Shed                 this class is refused at the present load; higher ones are not
      Empty                  nothing to receive now; more may come
      Ended                  nothing more will ever come
      PermitSpent            a permit was ended twice: a bug of the caller

A refusal is an answer, not a fault. Full, Expired and Shed speak of load (HTTP 429), Closed of an end (HTTP 503).
"""

from __future__ import annotations

from typing import Any, ClassVar


class FlowError(Exception):
    """Root of everything that `headrace.flow` raises on purpose."""


class Refusal(FlowError):
    """What was offered was not taken, and nothing of it stays behind.

    Attributes:
        item: what was offered, so that it can be offered again or handed back; None where nothing was offered.
        retry_after_s: when another try makes sense, in seconds from now; None when that is not known.
    """

    http_status: ClassVar[int] = 429

    def __init__(self, detail: str = "", *, item: Any = None, retry_after_s: float | None = None) -> None:
        self.item = item  # `detail` is in `args` since __new__
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:  # found only when read: under load most refusals are not
        return "".join(self.args) or (type(self).__doc__ or "").splitlines()[0]


class Full(Refusal):
    """There is no room now."""


class Closed(Refusal):
    """No more comes in."""

    http_status = 503


class Expired(Refusal):
    """The deadline passed before there was room."""


class Shed(Refusal):
    """This class is refused at the present load."""


class Empty(FlowError):
    """There is nothing to receive now."""


class Ended(FlowError):
    """Nothing more will come: the channel is closed and everything in it has been received."""


class PermitSpent(FlowError):
    """This permit was ended already."""


def with_item(error: Exception, item: object) -> Exception:
    """The error, with the item that was refused on it if it is a refusal."""
    if isinstance(error, Refusal):
        error.item = item
    return error
