"""A service to be killed: `webhook_child.py WORKSPACE URL`. Subscribes the URL, and takes one document in."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from service_support import jpeg, send, serving

from headrace.service.views import ServiceLimits
from headrace.service.webhook_limits import WebhookLimits
from headrace.service.webhooks import shown


async def main(workspace: Path, url: str) -> None:
    limits = ServiceLimits(min_free_bytes=0, webhooks=WebhookLimits(allow=("127.0.0.1",)))
    async with serving(workspace, limits) as reception:
        made = await reception.webhooks.subscribe(url, ["document.accepted"], None, "")
        accepted = await send(reception, jpeg(1))
        os.write(1, f"{shown(made.secret)} {accepted.document_id}\n".encode())
        await asyncio.sleep(600)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
