"""What became of an item: a `Success` or a `Failure`, handed on in the item's place."""

from __future__ import annotations

import traceback
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from headrace.execution.statistics import MapStatistics

T = TypeVar("T")
R = TypeVar("R")
T_co = TypeVar("T_co", covariant=True)
R_co = TypeVar("R_co", covariant=True)

WORKER_LOST = "worker-lost"
DEADLINE = "deadline"
MEMORY_LIMIT = "memory-limit"
UNPICKLABLE_ITEM = "unpicklable-item"
UNPICKLABLE_RESULT = "unpicklable-result"
EXCEPTION = "exception"
ATTEMPTS_EXHAUSTED = "attempts-exhausted"

DETAIL_CHARS = 2_000
TRACEBACK_CHARS = 16_000


class Success(NamedTuple, Generic[T, R]):
    """The function returned.

    Attributes:
        item: what was given.
        value: what the function made of it.
        elapsed_s: time in the function, in the worker.
        attempt: which attempt this was, from 1.
        worker: process id of the worker.
    """

    item: T
    value: R
    elapsed_s: float
    attempt: int
    worker: int


class Failure(NamedTuple, Generic[T]):
    """The item has no value; it cost only itself.

    Attributes:
        item: what was given.
        code: the reason: `worker-lost`, `deadline`, `memory-limit`, `unpicklable-item`, `unpicklable-result`,
            `attempts-exhausted`, or what the function raised: the exception's own `code` when that is text, else
            `exception`.
        detail: one sentence for a person.
        attempt: which attempt ended like this, from 1.
        elapsed_s: how long that attempt ran.
        retriable: whether it could go well when run again: the exception's own `retriable`, else by the code.
        stage, page: the exception's own attributes of these names; None without.
        exception: the exception itself when it could be brought over from the worker.
        traceback: the worker's traceback as text, its end when it is long; empty when nothing was raised.
        worker: process id of the worker; None when no worker saw the item.
    """

    item: T
    code: str
    detail: str
    attempt: int
    elapsed_s: float
    retriable: bool
    stage: str | None = None
    page: int | None = None
    exception: BaseException | None = None
    traceback: str = ""
    worker: int | None = None

    @classmethod
    def of(
        cls,
        item: Any,
        raised: Raised,
        *,
        attempt: int,
        elapsed_s: float,
        retriable: bool,
        exception: BaseException | None,
        worker: int | None,
    ) -> Failure[Any]:
        """A failure from what was raised; `retriable` counts when the exception itself does not say."""
        return Failure(
            item=item,
            code=raised.code,
            detail=raised.detail,
            attempt=attempt,
            elapsed_s=elapsed_s,
            retriable=retriable if raised.retriable is None else raised.retriable,
            stage=raised.stage,
            page=raised.page,
            exception=exception,
            traceback=raised.traceback,
            worker=worker,
        )


class Results(Protocol[T_co, R_co]):
    """The outcomes of one map, as any pool gives them."""

    def __aiter__(self) -> AsyncIterator[Success[Any, Any] | Failure[Any]]:
        """The outcomes. To be iterated once; leaving the loop closes the map."""

    def statistics(self) -> MapStatistics[Any]:
        """A snapshot."""

    @property
    def left(self) -> tuple[T_co, ...]:
        """Items that were pulled and have no outcome that was, or can still be, handed on."""

    def stop(self) -> None:
        """Pulls no more; what runs is finished and handed on, then the iteration ends."""

    async def aclose(self) -> None:
        """Ends the map now: closes the source and leaves no work running."""


class Raised(NamedTuple):
    """An exception of the function as data that always survives the way between processes."""

    code: str
    detail: str
    retriable: bool | None = None
    stage: str | None = None
    page: int | None = None
    traceback: str = ""


def describe(error: BaseException, code: str | None = None) -> Raised:
    """An exception as data: its own `code`, `retriable`, `stage` and `page` where it has them in the right types."""
    own_code, retriable, stage, page = (getattr(error, name, None) for name in ("code", "retriable", "stage", "page"))
    try:
        text = str(error)
    except Exception:
        text = "(its text cannot be had)"
    try:
        trace = "".join(traceback.format_exception(error))[-TRACEBACK_CHARS:]
    except Exception:
        trace = ""
    named = isinstance(own_code, str) and own_code != "" and code is None
    return Raised(
        code=str(own_code) if named else (code or EXCEPTION),
        detail=(text if named and text else f"{type(error).__name__}: {text}")[:DETAIL_CHARS],
        retriable=retriable if isinstance(retriable, bool) else None,
        stage=stage if isinstance(stage, str) else None,
        page=page if isinstance(page, int) else None,
        traceback=trace,
    )
