"""What the server answers, as values: the few fields that everybody needs by name, and all of the JSON in `fields`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.client.errors import UnexpectedAnswer
from headrace.documents.status import DocumentState

_FINAL = frozenset(
    {DocumentState.SUCCEEDED, DocumentState.PARTIAL, DocumentState.FAILED, DocumentState.CANCELLED},
)


@dataclass(frozen=True, slots=True)
class Document:
    """One document as the server has it.

    Attributes:
        document_id: what everything else is asked by.
        batch_id, position: its place.
        state: `succeeded`, `partial`, `failed` and `cancelled` are final.
        receipt: with its corrections; None until there is one, and for failures and duplicates.
        failure: why it failed (`code`, `stage`, `detail`, `retriable`, ...).
        duplicate_of: the first document with the same bytes.
        replayed: the server had it already: this request, or one with the same Idempotency-Key, came before.
        etag: what a correction names in If-Match; "" when it was not told.
        fields: everything, as JSON.
    """

    document_id: str
    batch_id: int
    position: int
    state: DocumentState
    receipt: Mapping[str, Any] | None
    failure: Mapping[str, Any] | None
    duplicate_of: Mapping[str, Any] | None
    replayed: bool
    etag: str
    fields: Mapping[str, Any]

    @property
    def done(self) -> bool:
        """Whether it has its end."""
        return self.state in _FINAL

    @classmethod
    def read(cls, told: Mapping[str, Any], *, replayed: bool = False, etag: str = "") -> Document:
        """From JSON; raises UnexpectedAnswer."""
        try:
            return cls(
                str(told["document_id"]),
                int(told["batch_id"]),
                int(told["position"]),
                DocumentState(told["state"]),
                told.get("receipt"),
                told.get("failure"),
                told.get("duplicate_of"),
                replayed,
                etag,
                told,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise _no_such("document", error) from error


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch as the server has it.

    Attributes:
        state: `open` takes documents, `closed` takes no more, `finished` has all its results.
        accepted, done, failed: documents of it.
        replayed: it was there already, under the same key.
        fields: everything, as JSON.
    """

    batch_id: int
    state: str
    accepted: int
    done: int
    failed: int
    replayed: bool
    fields: Mapping[str, Any]

    @property
    def finished(self) -> bool:
        """Whether all results are there, and no more documents come."""
        return self.state == "finished"

    @classmethod
    def read(cls, told: Mapping[str, Any], *, replayed: bool = False) -> Batch:
        """From JSON; raises UnexpectedAnswer."""
        try:
            accepted, done, failed = (int(told[name]) for name in ("accepted", "done", "failed"))
            return cls(int(told["batch_id"]), str(told["state"]), accepted, done, failed, replayed, told)
        except (KeyError, TypeError, ValueError) as error:
            raise _no_such("batch", error) from error


@dataclass(frozen=True, slots=True)
class Result:
    """One line of a batch's results: an entry of the ledger.

    Attributes:
        kind: `receipt`, `duplicate` or `failure`.
        position: its place in the batch; what `after` counts.
        name: what the document was called when it was handed in.
        sha256: of its bytes.
        fields: the whole line, as `headrace run` writes it.
    """

    kind: str
    document_id: str
    position: int
    name: str
    sha256: str
    fields: Mapping[str, Any]

    @property
    def failed(self) -> bool:
        """Whether it has no receipt and is no duplicate."""
        return self.kind == "failure"

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> Result:
        """From JSON; raises UnexpectedAnswer."""
        try:
            source = told["source"]
            text = (str(told["kind"]), str(told["document_id"]))
            return cls(*text, int(told["position"]), str(source["uri"]), str(told.get("sha256") or ""), told)
        except (KeyError, TypeError, ValueError) as error:
            raise _no_such("result", error) from error


@dataclass(frozen=True, slots=True)
class Capacity:
    """How full the server is.

    Attributes:
        retry_after_s: what a refused client would be told now; 0 when one would be taken.
        drain_rate_per_s: documents per second, as measured; None until that is known.
        oldest_eligible_age_s: how long the oldest document that could start has waited.
        fields: everything, as JSON: every bound, every class.
    """

    retry_after_s: float
    drain_rate_per_s: float | None
    oldest_eligible_age_s: float
    fields: Mapping[str, Any]

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> Capacity:
        """From JSON; raises UnexpectedAnswer."""
        try:
            rate = told["drain_rate_per_second"]
            age_s = float(told["oldest_eligible_age_seconds"])
            return cls(float(told["retry_after_seconds"]), None if rate is None else float(rate), age_s, told)
        except (KeyError, TypeError, ValueError) as error:
            raise _no_such("capacity", error) from error


def _no_such(what: str, error: Exception) -> UnexpectedAnswer:
    return UnexpectedAnswer(f"the answer is no {what} ({type(error).__name__}: {error}); is this a headrace service?")
