"""Webhooks: tells receivers of events until they have taken them, whoever else hangs meanwhile.

    event and messages (one transaction) -> due? -> a place free? -> one try -> delivered | due again | given up

What is to be sent stands in the store; in memory is only what is under way. A try that was under way when the process
ended is made again, with the same `webhook-id`.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import math
import random
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from headrace.service.bell import Bell
from headrace.service.errors import NotFound, UrlForbidden, WebhooksFull
from headrace.service.public_addresses import Addresses, AddressRefused, Resolve, system_resolve
from headrace.service.views import Bound
from headrace.service.webhook_limits import WebhookLimits
from headrace.storage.errors import StorageFull, StoreError, TooManyWebhooks, UnknownWebhook
from headrace.storage.sql_webhooks import DEAD, DELIVERED, WAITING, Message, Tried, Webhook
from headrace.storage.sqlite import SqliteStore

if TYPE_CHECKING:  # it needs 10 MB and a moment: only where there are webhooks
    from headrace.service.webhook_sending import Outcome, Sender

R = TypeVar("R")

EVENT_KINDS = (
    *(f"document.{name}" for name in ("accepted", "running", "succeeded", "partial", "failed", "cancelled")),
    *(f"document.{name}" for name in ("corrected", "approved", "rejected")),
    *(f"batch.{name}" for name in ("opened", "closed", "finished")),
)
PATTERNS = ("*", "document.*", "batch.*")

_LOG = logging.getLogger("headrace.service")
_SECRET_BYTES = 32
_TIDY_S = 60.0
_AFTER_TROUBLE_S = 1.0
_JITTER = 0.2
_LONGEST_S = 3600.0


class Steps(Protocol):
    """How a step is done in the store; the reception's."""

    def __call__(self, step: Callable[[SqliteStore], R], /) -> Awaitable[R]:
        """Does it."""


class Webhooks:
    """Subscriptions and deliveries. Belongs to one event loop.

    Args:
        limits: may be replaced while in use.
        do, look: a step that writes, and one that only looks.
        bell: rings `events` when there are new ones.
        events: that name.
        resolve: for tests.

    Attributes:
        outcomes: of tries so far: `delivered`, `retried`, `dead`.
        problem: why nothing can be sent now; "" when all is well.
    """

    def __init__(
        self,
        limits: WebhookLimits,
        *,
        do: Steps,
        look: Steps,
        bell: Bell,
        events: str,
        resolve: Resolve = system_resolve,
    ) -> None:
        self._do, self._look = do, look
        self._bell, self._events = bell, events
        self._resolve = resolve
        self.change_limits(limits)
        self._known: dict[int, Webhook] | None = None  # bounded by `most`; None: to be read
        self._tasks: dict[int, tuple[int, asyncio.Task[None]]] = {}  # message -> webhook, try; bounded by `in_flight`
        self._troubled: set[int] = set()  # the last try failed: one at a time
        self._again_at = 0.0
        self._sender: Sender | None = None  # made for the first message
        self.outcomes: Counter[str] = Counter()
        self.problem = ""

    def change_limits(self, limits: WebhookLimits) -> None:
        """Takes other limits while in use."""
        self.limits = limits
        self.addresses = Addresses(limits.allow, self._resolve)

    def bounds(self) -> tuple[Bound, ...]:
        """What is used of the bounds."""
        known = len(self._known or ())
        return (
            Bound("webhooks", "subscriptions", known, self.limits.most, "set"),
            Bound("webhook_requests", "requests", len(self._tasks), self.limits.in_flight, "set"),
        )

    # What an operator asks

    async def subscribe(self, url: str, kinds: Sequence[str], client: str | None, description: str) -> Webhook:
        """Adds a webhook; it is told of what happens from now on.

        Raises:
            UrlForbidden: this address is not one that we send to.
            WebhooksFull: there are as many as there may be.
        """
        try:
            self.addresses.check(url)
        except AddressRefused as error:
            raise UrlForbidden(str(error)) from error
        secret = secrets.token_bytes(_SECRET_BYTES)
        most = self.limits.most
        try:
            made = await self._do(lambda store: store.add_webhook(url, kinds, client, secret, description, most))
        except TooManyWebhooks as error:
            raise WebhooksFull(str(error)) from error
        self._forget()
        return made

    async def all(self) -> list[Webhook]:
        """All webhooks, oldest first."""
        return await self._look(lambda store: store.webhooks())

    async def one(self, webhook_id: int) -> Webhook:
        """One webhook. Raises NotFound."""
        for its in await self.all():
            if its.webhook_id == webhook_id:
                return its
        raise NotFound(f"there is no webhook {webhook_id}")

    async def remove(self, webhook_id: int) -> None:
        """Ends a subscription: nothing more is sent to it, what waits is dropped. Raises NotFound."""
        try:
            await self._do(lambda store: store.remove_webhook(webhook_id))
        except UnknownWebhook as error:
            raise NotFound(str(error)) from error
        self._forget()
        for its, task in list(self._tasks.values()):
            if its == webhook_id:
                task.cancel()

    async def deliveries(self, webhook_id: int, after: int, limit: int, state: int | None = None) -> list[Message]:
        """The next messages of a webhook by number. Raises NotFound."""
        found = await self._look(lambda store: store.messages(webhook_id, after, limit, state))
        if found is None:
            raise NotFound(f"there is no webhook {webhook_id}")
        return found

    async def send_again(self, webhook_id: int, number: int) -> Message:
        """Sends a message again, with all its tries, whatever became of it. Raises NotFound."""
        try:
            message = await self._do(lambda store: store.send_again(webhook_id, number))
        except UnknownWebhook as error:
            raise NotFound(str(error)) from error
        self._bell.ring(self._events)
        return message

    def _forget(self) -> None:
        self._known = None
        self._bell.ring(self._events)

    # Sending

    async def run(self) -> None:
        """Sends until it is cancelled; then what is under way is broken off, and made again at the next start."""
        tidying = asyncio.create_task(self._tidy())
        try:
            while True:
                # First listen, then look: what happens in between is not missed.
                wake = asyncio.create_task(self._bell.until(self._events, _second_time(), _LONGEST_S))
                await asyncio.sleep(0)
                try:
                    try:
                        await self._pass()
                        self.problem = ""
                        wait_s = self._sleep_s()
                    except Exception as error:  # the store, most likely; it must not end the service
                        self.problem = f"{type(error).__name__}: {error}"
                        _LOG.warning("webhooks: %s", self.problem)
                        await asyncio.sleep(_AFTER_TROUBLE_S)
                        continue
                    await asyncio.wait({wake}, timeout=wait_s)
                finally:
                    wake.cancel()
        finally:
            tidying.cancel()
            tasks = [task for _, task in self._tasks.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(tidying, *tasks, return_exceptions=True)
            if self._sender is not None:
                await self._sender.aclose()
                self._sender = None

    def _sleep_s(self) -> float:
        return min(_LONGEST_S, max(0.0, self._again_at - time.time()))

    async def _pass(self) -> None:
        """Begins what is due and has a place. Sets when to look again by itself."""
        if self._known is None:
            self._known = {its.webhook_id: its for its in await self._look(lambda store: store.webhooks())}
            self._troubled &= self._known.keys()
        known = self._known
        self._again_at = math.inf
        under_way = Counter(webhook_id for webhook_id, _ in self._tasks.values())
        wanted = [(its, self._room(its) + 1 + under_way[its]) for its in known if under_way[its] < self._room(its)]
        if not wanted:
            return
        # What ends while we look may still be seen as waiting: it is not to be sent a second time.
        not_these = set(self._tasks)
        waiting: dict[int, list[Message]] = {}
        for message in await self._look(lambda store: store.next_messages(wanted)):
            if message.number not in not_these:
                waiting.setdefault(message.webhook_id, []).append(message)
        if waiting and self._sender is None:
            self._sender = await asyncio.to_thread(_make_sender)
        now = time.time()
        # Fair turns: the webhook with the fewest requests under way goes next.
        while (free := self.limits.in_flight - len(self._tasks)) > 0:
            ready = [
                its
                for its, messages in waiting.items()
                if messages and messages[0].due_at <= now and under_way[its] < self._room(its)
            ]
            if not ready:
                break
            its = min(ready, key=lambda webhook_id: under_way[webhook_id])
            if under_way[its] and free <= sum(not under_way[other] for other in known):
                break  # what is left is for those that have none under way
            message = waiting[its].pop(0)
            under_way[its] += 1
            task = asyncio.create_task(self._try(known[its], message))
            self._tasks[message.number] = (its, task)
            task.add_done_callback(partial(self._tried, message.number))
        later = [messages[0].due_at for messages in waiting.values() if messages and messages[0].due_at > now]
        self._again_at = min(later, default=math.inf)

    def _room(self, webhook_id: int) -> int:
        return 1 if webhook_id in self._troubled else self.limits.in_flight_each

    def _tried(self, number: int, task: asyncio.Task[None]) -> None:
        self._tasks.pop(number, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            # The store has stopped, or a bug: how the try went is not known, so it is made again, and not at once.
            self.problem = f"{type(error).__name__}: {error}"
            asyncio.get_running_loop().call_later(_AFTER_TROUBLE_S, self._bell.ring, self._events)
            return
        self._bell.ring(self._events)

    async def _try(self, webhook: Webhook, message: Message) -> None:
        limits, sender = self.limits, self._sender
        assert sender is not None
        outcome = await sender.send(webhook, message, self.addresses, now=time.time(), timeout_s=limits.timeout_s)
        if outcome.delivered:
            self._troubled.discard(webhook.webhook_id)
        else:
            self._troubled.add(webhook.webhook_id)
        tried = follow_up(message, outcome, limits.retry_s, time.time(), random.uniform(1 - _JITTER, 1 + _JITTER))
        while True:
            try:
                await self._do(lambda store: store.note_try(tried))
                break
            except (StoreError, StorageFull) as error:  # an outage: who has it must not get it again every second
                self.problem = str(error)
                await asyncio.sleep(_AFTER_TROUBLE_S)
        self.outcomes[{DELIVERED: "delivered", WAITING: "retried", DEAD: "dead"}[tried.state]] += 1

    async def _tidy(self) -> None:
        """Once a minute, and at the start: the tables within their bounds."""
        while True:
            more = True
            while more:
                limits = self.limits
                kept, most = limits.ended_kept, limits.waiting
                try:
                    given_up, more = await self._do(
                        lambda store, kept=kept, most=most: store.tidy_webhooks(  # type: ignore[misc]
                            ended_kept=kept, waiting_most=most
                        )
                    )
                    self.outcomes["dead"] += given_up
                except Exception:  # an outage: the next time
                    more = False
            await asyncio.sleep(_TIDY_S)


def shown(secret: bytes) -> str:
    """A secret as receivers are given it."""
    return "whsec_" + base64.b64encode(secret).decode()


def _make_sender() -> Sender:
    from headrace.service.webhook_sending import Sender

    return Sender()


def follow_up(message: Message, outcome: Outcome, retry_s: Sequence[float], now: float, jitter: float) -> Tried:
    """What follows from a try: delivered, or due again, or given up when tries or time are used up."""
    status, error = outcome.status, outcome.error
    if outcome.delivered:
        return Tried(message.number, DELIVERED, now, status, None, now)
    if message.tries < len(retry_s):
        due_at = now + retry_s[message.tries] * jitter
        if due_at <= message.ends_at:
            return Tried(message.number, WAITING, now, status, error, due_at)
    return Tried(message.number, DEAD, now, status, error, now)


def _second_time() -> Callable[[], Awaitable[bool | None]]:
    """For a bell that is to end the wait by ringing: not so when asked first, so when it has rung."""
    answers = iter((False,))

    async def is_so() -> bool | None:
        return next(answers, True)

    return is_so
