"""The third recipe with headrace: a permit for each document, taken in the step that decides, held until it is done."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable

from headrace.flow import Permit, Receiver, Refusal, Sender, channel
from headrace.flow.admission import Admission, Admitted


class Server:
    def __init__(
        self,
        store: Callable[[bytes], Awaitable[None]],
        refuse: Callable[[Refusal], object],
        *,
        documents: int,
        total_bytes: int,
    ) -> None:
        self.store, self.refuse = store, refuse
        self.admission = Admission(documents, limit_bytes=total_bytes)
        self.sender: Sender[tuple[bytes, Permit]]
        self.receiver: Receiver[tuple[bytes, Permit]]
        self.sender, self.receiver = channel(documents)

    async def connected(self, bodies: AsyncIterable[bytes]) -> None:
        async for body in bodies:  # an open connection that sends nothing holds nothing
            match self.admission.decide(size_bytes=len(body)):
                case Admitted(permit):
                    await self.accept(body, permit)
                case Refusal() as refusal:
                    self.refuse(refusal)  # an answer, not an exception

    async def accept(self, body: bytes, permit: Permit) -> None:
        try:
            await self.store(body)
            await self.sender.send((body, permit))  # whoever receives it ends the permit: `with permit:`
        except BaseException:
            permit.ignore()
            raise
