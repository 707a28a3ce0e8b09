"""A service with clients in one process, to be killed: `crashing_service.py WORKSPACE FIRST LAST`.

Sends the documents FIRST to LAST, 40 at a time, each with its number as its key; says `accepted NUMBER ID` for each as
soon as it is accepted, and `done` when all of them have their entries.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from service_support import DEADLINE_S, jpeg, send, serving

from headrace.service.reception import ServiceLimits


async def main(workspace: Path, first: int, last: int) -> None:
    numbers = iter(range(first, last + 1))
    limits = ServiceLimits(documents=200, min_free_bytes=0)
    async with serving(workspace, limits, workers=2) as reception:
        os.write(1, b"serving\n")

        async def client() -> None:
            for number in numbers:
                accepted = await send(reception, jpeg(number, 3000), "c", idempotency_key=f"n{number}")
                os.write(1, f"accepted {number} {accepted.document_id}\n".encode())

        await asyncio.gather(*[client() for _ in range(40)])
        for held in reception._line.everyone():
            await reception.wait_for(held.document.document_id, DEADLINE_S)
        os.write(1, b"done\n")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
