"""What can go wrong with a store.

StoreError
  WorkspaceBusy          another process has the workspace
  WorkspaceMissing       there is no workspace to read
  SchemaTooNew           written by a later headrace
  StoreUnavailable       the database cannot be read or written: an outage, not load
  HeadMoved              a commit that does not follow the head: a second writer, or the same group twice
  BatchNotDone           a batch that cannot be finished yet
  UnknownBatch, UnknownDocument
  BatchListed            a batch that takes no more documents
  KeyUsed                an idempotency key that was used for something else
  LeaseLost              what somebody wrote about a document that is not his any more
  UnknownWebhook, TooManyWebhooks
StorageFull (an OSError) the disk or the bound on blobs is full; nothing was written, try again when there is room
"""

from __future__ import annotations

import errno
from typing import ClassVar


class StoreError(Exception):
    """A store cannot do what was asked; the message says what to do next. `exit_code` is for the command line."""

    exit_code: ClassVar[int] = 2


class WorkspaceBusy(StoreError):
    """Another process has this workspace; `pid` is 0 when it did not say which."""

    def __init__(self, workspace: str, pid: int) -> None:
        who = f"process {pid}" if pid else "another process"
        super().__init__(f"the workspace {workspace} is in use by {who}; wait for it, stop it, or use --workspace")
        self.pid = pid


class WorkspaceMissing(StoreError):
    """There is no workspace here."""


class SchemaTooNew(StoreError):
    """The store was written by a later version of headrace."""


class StoreUnavailable(StoreError):
    """The database cannot be read or written."""

    exit_code = 5


class HeadMoved(StoreError):
    """The entries do not follow the head of their book; nothing was written."""

    exit_code = 1


class BatchNotDone(StoreError):
    """The batch still has documents in flight, or sources that may be listed."""

    exit_code = 1


class UnknownBatch(StoreError):
    """No batch has this id."""


class UnknownDocument(StoreError):
    """No document, or no dead letter, has this id."""


class BatchListed(StoreError):
    """The batch takes no more documents."""


class KeyUsed(StoreError):
    """The idempotency key was used for another request."""


class LeaseLost(StoreError):
    """The document was given to somebody else, or has its end; nothing was written."""

    exit_code = 1


class UnknownWebhook(StoreError):
    """No webhook, or no message of it, has this number."""


class TooManyWebhooks(StoreError):
    """There are as many webhooks as there may be."""


class StorageFull(OSError):
    """There is no room for more bytes; nothing was written."""

    exit_code: ClassVar[int] = 5

    def __init__(self, message: str) -> None:
        super().__init__(errno.ENOSPC, message)
