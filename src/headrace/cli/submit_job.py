"""What `headrace submit` does, apart from its options: sources to uploads, results to lines, and how it ended."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, aclosing
from dataclasses import asdict, dataclass, field
from typing import IO

from headrace.cli.exit_codes import ExitCode
from headrace.cli.formats import counted, duration, readable_bytes
from headrace.cli.submit_progress import SubmitProgress, Tally
from headrace.cli.submit_sources import Uploads, count_documents, found_in_daemon_thread
from headrace.client import (
    AsyncClient,
    Batch,
    ClassName,
    ClientError,
    Conflict,
    NotAllowed,
    Submitted,
    Verdict,
)
from headrace.ingest.output import OutputError
from headrace.ingest.sources import Source, SourceError

SHOWN = 20
"""How many documents that were not taken are named."""


@dataclass(slots=True)
class Ended:
    """How it ended.

    Attributes:
        submitted: once everything was sent; None before.
        batch_id, address: of the batch, and where its results are.
        tally: the numbers.
        refused: what was not taken, one line each; the first 20.
        error: what stopped it.
        broken: the sources broke off, or some could not be read.
        signal: Ctrl-C or SIGTERM.
    """

    tally: Tally
    submitted: Submitted | None = None
    batch_id: int = 0
    address: str = ""
    refused: list[str] = field(default_factory=list)
    error: Exception | None = None
    broken: SourceError | None = None
    signal: signal.Signals | None = None
    elapsed_s: float = 0.0

    def lines(self) -> list[str]:
        """The summary."""
        tally = self.tally
        lines = [*self.refused]
        if tally.refused > len(self.refused):
            lines.append(f"... and {tally.refused - len(self.refused):,} more that were not taken")
        if self.batch_id:
            lines.append(
                f"batch {self.batch_id}: {counted(tally.given, 'document')} = {tally.sent:,} sent "
                f"({readable_bytes(tally.sent_bytes)}) + {tally.known:,} there already + {tally.refused:,} not taken, "
                f"in {duration(self.elapsed_s)}; the service said later {counted(tally.later, 'time')}"
            )
        if tally.follows:
            lines.append(f"{counted(tally.results, 'result')}, {tally.failed:,} failed")
        return lines

    def as_dict(self) -> dict[str, object]:
        """The summary for programs."""
        told: dict[str, object] = {"event": "summary", "batch_id": self.batch_id or None, "results_at": self.address}
        return told | asdict(self.tally) | {"elapsed_s": round(self.elapsed_s, 3), "not_taken": self.refused}

    def errors(self) -> list[str]:
        """What went wrong as a whole, and what to do."""
        lines = [str(error) for error in (self.broken, self.error) if error is not None]
        if isinstance(self.error, Conflict) and self.error.problem.code == "batch-closed":
            lines.append("that batch was handed in before, without some of these documents: take another --key")
        elif self.batch_id and self.submitted is None:
            lines.append("stopped; the same command goes on, and sends nothing twice")
        elif self.batch_id and (self.error is not None or self.signal is not None):
            lines.append(f"all documents are handed in; the results are at {self.address}")
        return lines

    def exit_code(self) -> int:
        """As everywhere: 3 when some documents failed, 4 when all did."""
        if isinstance(self.error, OutputError):
            return ExitCode.OUTPUT
        if isinstance(self.error, NotAllowed | Conflict) or (self.error is not None and not self.batch_id):
            problem = isinstance(self.error, NotAllowed | Conflict) or type(self.error) is ClientError
            return ExitCode.USAGE if problem else ExitCode.ALL_FAILED
        failed = self.tally.refused + self.tally.failed
        if self.tally.given and failed >= self.tally.given:
            return ExitCode.ALL_FAILED
        return ExitCode.SOME_FAILED if failed or self.error is not None or self.broken else ExitCode.OK


class Job:
    """One run of the command.

    Args:
        url: of the service.
        sources: what is sent, in their order.
        service_class, key: of the batch.
        in_flight: how many are sent at once; 1 keeps their order.
        patience_s: how long one document may take, with all its attempts.
        output: where results go; None does not ask for them.
        overwrite: start that file afresh.
        display: how progress is shown.
        countable: whether the sources may be walked twice, so that a time left can be told.
    """

    def __init__(
        self,
        url: str,
        sources: list[Source],
        *,
        service_class: ClassName,
        key: str,
        in_flight: int,
        patience_s: float,
        output: str | None,
        overwrite: bool,
        display: str,
        countable: bool,
    ) -> None:
        self._url = url
        self._sources = sources
        self._class = service_class
        self._key = key
        self._in_flight = in_flight
        self._patience_s = patience_s
        self._output = output
        self._overwrite = overwrite
        self._countable = countable
        self._stopping = False
        self.ended = Ended(Tally(follows=output is not None))
        self._progress = SubmitProgress(display, self.ended.tally)

    async def run(self) -> None:
        """Runs to the end; how it was is in `ended`. Cancelled, it closes everything and leaves the batch open."""
        began = time.monotonic()
        try:
            with ExitStack() as stack:
                write = self._open_output(stack)
                uploads = stack.enter_context(Uploads(self._sources, self._refuse))
                stack.enter_context(self._progress)
                async with AsyncClient(self._url, in_flight=self._in_flight, deadline_s=self._patience_s) as client:
                    await self._work(client, uploads, write)
        except (ClientError, OutputError) as error:
            self.ended.error = error
        finally:
            self._stopping = True
            self.ended.elapsed_s = time.monotonic() - began

    async def _work(self, client: AsyncClient, uploads: Uploads, write: Callable[[bytes], None] | None) -> None:
        opened: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        tasks = [asyncio.create_task(self._send(client, uploads, opened))]
        if write is not None:
            tasks.append(asyncio.create_task(self._follow(client, opened, write)))
        helpers = [asyncio.create_task(self._progress.keep_showing(client))]
        if self._countable:
            helpers.append(asyncio.create_task(self._count()))
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        finally:
            self._stopping = True
            self.ended.tally.later = client.later
            for task in (*tasks, *helpers):
                task.cancel()
            await asyncio.gather(*tasks, *helpers, return_exceptions=True)

    async def _send(self, client: AsyncClient, uploads: Uploads, opened: asyncio.Future[int]) -> None:
        def on_open(batch: Batch) -> None:
            self.ended.batch_id = batch.batch_id
            self.ended.address = f"{self._url.rstrip('/')}/v1/batches/{batch.batch_id}/results"
            opened.set_result(batch.batch_id)
            again = f", goes on with {batch.accepted:,} there already" if batch.replayed else ""
            self._progress.note(f"batch {batch.batch_id} at {self._url}{again}")

        def on_verdict(verdict: Verdict) -> None:
            uploads.release(verdict.index)
            if verdict.problem is not None:
                self._refuse(verdict.name, str(verdict.problem))
                return
            tally = self.ended.tally
            tally.given += 1
            tally.known += verdict.known
            tally.sent += not verdict.known
            tally.sent_bytes += 0 if verdict.known else verdict.size_bytes

        try:
            self.ended.submitted = await client.submit_many(
                uploads,
                key=self._key,
                service_class=self._class,
                in_order=self._in_flight == 1,
                on_open=on_open,
                on_verdict=on_verdict,
            )
            self.ended.tally.all_sent = True
        finally:
            self.ended.broken = uploads.broken
            if not opened.done():
                opened.cancel()

    async def _follow(self, client: AsyncClient, opened: asyncio.Future[int], write: Callable[[bytes], None]) -> None:
        tally = self.ended.tally
        batch_id = await opened
        async with aclosing(client.results(batch_id)) as results:
            async for result in results:
                tally.results += 1
                tally.failed += result.failed
                line = json.dumps(result.fields, ensure_ascii=False, separators=(",", ":"))
                write(line.encode("utf-8", "backslashreplace") + b"\n")

    def _refuse(self, name: str, why: str) -> None:
        self.ended.tally.given += 1
        self.ended.tally.refused += 1
        if len(self.ended.refused) < SHOWN:
            self.ended.refused.append(f"{name} {why}")

    async def _count(self) -> None:
        self.ended.tally.total = await found_in_daemon_thread(
            lambda: count_documents(self._sources, lambda: self._stopping)
        )

    def _open_output(self, stack: ExitStack) -> Callable[[bytes], None] | None:
        if self._output is None:
            return None
        if self._output == "-":
            stream: IO[bytes] = sys.stdout.buffer
        else:
            try:
                stream = open(self._output, "wb" if self._overwrite else "xb")  # noqa: SIM115  # the stack closes it
                stack.enter_context(stream)
            except FileExistsError:
                raise OutputError(
                    f"{self._output} exists; --overwrite writes it afresh, with all results of the batch"
                ) from None
            except OSError as error:
                raise OutputError(f"cannot write {self._output}: {error.strerror}") from error

        def write(line: bytes) -> None:
            try:
                stream.write(line)
                stream.flush()
            except BrokenPipeError:
                raise
            except OSError as error:
                raise OutputError(f"cannot write {self._output}: {error.strerror}") from error

        return write
