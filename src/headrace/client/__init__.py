"""The client of a headrace service: hand documents in, each exactly once, and read the results in order.

    with Client("http://127.0.0.1:8080") as client:
        document = client.wait(client.submit("receipt.jpg"))
        submitted = client.submit_many((Upload(path) for path in paths), key="march")
        for result in client.results(submitted.batch.batch_id):
            ...

`AsyncClient` is the same for asyncio. Needs httpx: `pip install 'headrace[client]'`.
"""

from headrace.client.answers import Batch, Capacity, Document, Result
from headrace.client.async_client import AsyncClient, ClassName
from headrace.client.batches import Submitted, Verdict
from headrace.client.client import Client
from headrace.client.errors import (
    Busy,
    ClientError,
    Conflict,
    DeadlinePassed,
    NotAllowed,
    NotFound,
    Problem,
    ProblemError,
    Rejected,
    ServerFailed,
    Unavailable,
    UnexpectedAnswer,
    Unreachable,
)
from headrace.client.uploads import Upload

__all__ = [
    "AsyncClient",
    "Batch",
    "Busy",
    "Capacity",
    "ClassName",
    "Client",
    "ClientError",
    "Conflict",
    "DeadlinePassed",
    "Document",
    "NotAllowed",
    "NotFound",
    "Problem",
    "ProblemError",
    "Rejected",
    "Result",
    "ServerFailed",
    "Submitted",
    "Unavailable",
    "UnexpectedAnswer",
    "Unreachable",
    "Upload",
    "Verdict",
]
