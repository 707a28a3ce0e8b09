"""What webhooks may take: how many, how much at once, how long, and which addresses inside are allowed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WebhookLimits:
    """The bounds of webhooks; `[webhooks]` in the file of limits.

    Attributes:
        most: subscriptions.
        in_flight: requests that are under way, all together; at least `most`. A place is kept free for each webhook
            that has none under way, so that one whose receiver hangs never holds up another one.
        in_flight_each: requests that are under way for one webhook; one alone while its last try failed.
        timeout_s: for one request: name, connection and answer together.
        ended_kept: messages that were delivered or given up, kept for each webhook to be looked at and sent again.
        waiting: messages that wait for each webhook; beyond it the oldest are given up.
        retry_s: how long to wait after the first, the second, ... failed try, each give or take a fifth. One more than
            there are numbers here is the most that is tried.
        allow: hosts and networks that may be reached although they are not public, by `http:` too, such as
            `hooks.corp.example` and `10.1.0.0/16`.
    """

    most: int = 32
    in_flight: int = 64
    in_flight_each: int = 4
    timeout_s: float = 15.0
    ended_kept: int = 10_000
    waiting: int = 100_000
    retry_s: tuple[float, ...] = (5.0, 300.0, 1800.0, 3 * 3600.0, 15 * 3600.0)
    allow: tuple[str, ...] = ()
