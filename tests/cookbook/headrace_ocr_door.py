"""The first recipe with headrace: the same parts, each decided in one step, and nothing to forget."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from headrace.flow import Gate, Gauge, Permit, Rate, Receiver, Sender, channel
from headrace.flow.admission import Admission, Admitted


class OcrDoor:
    def __init__(self, *, capacity: int = 64, in_flight: int = 64, per_s: float = 1000.0) -> None:
        depth = Gauge("documents_waiting")
        self.sender: Sender[tuple[str, Permit]]
        self.receiver: Receiver[tuple[str, Permit]]
        self.sender, self.receiver = channel(capacity, depth_gauge=depth)
        self.gate = Gate(depth, high_water=capacity * 3 // 4, low_water=capacity // 4)
        self.admission = Admission(in_flight, rate=Rate(per_s), gates=[self.gate])

    async def submit(self, document: str, *, deadline_s: float | None = None) -> None:
        decision = await self.admission.admit(deadline_s=deadline_s)  # gate, token and permit in one step, or none
        if not isinstance(decision, Admitted):
            raise decision  # Full, Closed, Expired or Shed; it says when to come back
        try:
            await self.sender.send((document, decision.permit))
        except BaseException:
            decision.permit.ignore()
            raise

    async def work(self, recognise: Callable[[str], Awaitable[Any]], failed: Callable[[str, Exception], Any]) -> None:
        async for document, permit in self.receiver:  # no gate here: taking out is what opens it
            try:
                with permit:  # given back whatever happens: a result, an error, a cancellation
                    await recognise(document)
            except Exception as error:
                failed(document, error)
