"""The worker process: runs the function on what comes in and answers, until its parent closes the socket or dies.

Started as `python -c "... worker.main(...)"`, never by a fork. It ignores Ctrl-C and SIGTERM, which the terminal or
the service manager sends to the whole group: the parent decides when work ends, and the kernel kills this process
when the parent is gone.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import mmap
import os
import pickle
import signal
import socket
import traceback
from collections.abc import Callable
from time import monotonic_ns
from typing import Any, NamedTuple

from headrace.execution import main_module
from headrace.execution.memory import ResidentMemory
from headrace.execution.outcome import TRACEBACK_CHARS, UNPICKLABLE_ITEM, UNPICKLABLE_RESULT, describe
from headrace.execution.progress import listening
from headrace.execution.wire import (
    CEILING,
    INDEX_BITS,
    MAX_PLACE,
    PAGE_BYTES,
    PARENT_DECIDES,
    PROGRESS,
    REPLY,
    REQUEST,
    RETIRING,
    RUNNING,
    STARTED,
    Kind,
)

PR_SET_PDEATHSIG = 1
RSS_READING_NS = 50_000_000
PROGRESS_NS = 200_000_000  # at most so often: bounds what a function with many quick steps sends
EXCEPTION_BYTES = 1 << 20  # an exception that pickles to more is brought over as text only


class Hello(NamedTuple):
    """The first thing a worker is told."""

    preparation: main_module.Preparation
    factory: bytes
    retire_rss_bytes: int | None


def main(socket_fd: int, page_fd: int, parent_pid: int) -> None:
    """Runs a worker on an inherited socket and page."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A handler, not SIG_IGN: what the function starts itself must not inherit deafness.
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PARENT_DECIDES)  # blocked by the parent, until the lines above
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    _yield_to_parent()
    if os.getppid() != parent_pid:
        return  # it died before the line above could take effect
    words = memoryview(mmap.mmap(page_fd, PAGE_BYTES)).cast("Q")
    os.close(page_fd)
    connection = socket.socket(fileno=socket_fd)
    with connection, io.FileIO(socket_fd, closefd=False) as raw:
        requests = io.BufferedReader(raw, 1 << 16)
        try:
            hello: Hello = pickle.loads(_read_frame(requests)[1])
            main_module.prepare(hello.preparation)
            function = pickle.loads(hello.factory)()
        except BaseException:
            text = traceback.format_exc()[-TRACEBACK_CHARS:].encode(errors="replace")
            connection.sendall(REPLY.pack(len(text), Kind.START_FAILED, 0, 0) + text)
            return
        worker = Worker(function, connection, words, hello.retire_rss_bytes)
        try:
            with listening(worker.tell_progress):
                worker.serve(requests)
        except (BrokenPipeError, ConnectionResetError):
            return  # the parent does not want the answer any more


def _yield_to_parent() -> None:
    """Has this process run beside its parent, not instead of it.

    Woken by a chunk, it would else push its parent off the processor in the middle of sending. Its share of the
    processor stays the same. What it starts itself inherits this.
    """
    with contextlib.suppress(AttributeError, OSError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def _read_frame(requests: io.BufferedReader[Any]) -> tuple[int, bytes, int]:
    header = requests.read(REQUEST.size)
    if len(header) < REQUEST.size:
        raise EOFError
    length, position, count = REQUEST.unpack(header)
    return position, requests.read(length), count


class Worker:
    """The loop of a worker. It has one request in hand at a time, and what it has answered it forgets."""

    def __init__(
        self, function: Callable[[Any], Any], connection: socket.socket, words: memoryview, retire_rss_bytes: int | None
    ) -> None:
        self._function = function
        self._connection = connection
        self._words = words
        self._retire_rss_bytes = retire_rss_bytes
        self._memory = ResidentMemory()
        self._rss_bytes = self._memory.read() or 0
        self._rss_read_ns = monotonic_ns()
        self._retiring = 0
        self._told_ns = 0

    def serve(self, requests: io.BufferedReader[Any]) -> None:
        """Answers requests until the parent closes its end."""
        self._reply(Kind.READY, 0)
        words = self._words
        while True:
            try:
                position, payload, count = _read_frame(requests)
            except EOFError:
                return
            if position > words[CEILING] or self._retiring:
                self._reply(Kind.RETURNED, 0)
                continue
            # The start time first: see Page.doing.
            words[STARTED] = monotonic_ns()
            words[RUNNING] = position << INDEX_BITS | (count == 1)
            if count == 1:
                kind, elapsed_ns, answer = self._run_one(payload)
            else:
                kind, elapsed_ns, answer = self._run_chunk(position, payload)
            del payload
            self._watch_memory()
            self._reply(kind, elapsed_ns, answer)
            words[RUNNING] = 0
            del answer

    def _run_one(self, payload: bytes) -> tuple[Kind, int, bytes]:
        try:
            item = pickle.loads(payload)
        except Exception as error:
            return Kind.ERROR, 0, _dump_error(error, UNPICKLABLE_ITEM)
        begun_ns = monotonic_ns()
        try:
            value = self._function(item)
        except SystemExit:
            raise  # the function asked this process to end
        except BaseException as error:
            return Kind.ERROR, monotonic_ns() - begun_ns, _dump_error(error)
        elapsed_ns = monotonic_ns() - begun_ns
        try:
            return Kind.VALUE, elapsed_ns, pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            return Kind.ERROR, elapsed_ns, _dump_error(error, UNPICKLABLE_RESULT)

    def _run_chunk(self, position: int, payload: bytes) -> tuple[Kind, int, bytes]:
        words, function, tag = self._words, self._function, position << INDEX_BITS
        values: list[Any] = []
        elapsed: list[int] = []
        errors: dict[int, bytes] = {}
        try:
            items = pickle.loads(payload)
        except Exception:
            return Kind.UNREADABLE, 0, b""
        begun_ns = monotonic_ns()
        for mark, item in enumerate(items, tag + 1):
            words[STARTED] = begun_ns
            words[RUNNING] = mark
            try:
                value = function(item)
            except SystemExit:
                raise
            except BaseException as error:
                elapsed.append(monotonic_ns() - begun_ns)
                errors[len(values)] = _dump_error(error)
                values.append(None)
                begun_ns = monotonic_ns()
                continue
            ended_ns = monotonic_ns()
            values.append(value)
            elapsed.append(ended_ns - begun_ns)
            begun_ns = ended_ns
        words[STARTED] = begun_ns
        words[RUNNING] = tag
        total_ns, elapsed_s = sum(elapsed), [ns / 1e9 for ns in elapsed]
        try:
            return Kind.VALUES, total_ns, pickle.dumps((values, elapsed_s, errors), pickle.HIGHEST_PROTOCOL)
        except Exception:
            for index, value in enumerate(values):
                try:
                    pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
                except Exception as error:
                    values[index] = None
                    errors[index] = _dump_error(error, UNPICKLABLE_RESULT)
            return Kind.VALUES, total_ns, pickle.dumps((values, elapsed_s, errors), pickle.HIGHEST_PROTOCOL)

    def tell_progress(self, done: int, total: int) -> None:
        """Sends how far the item is, when its turn has come and the pipe has room."""
        now_ns = monotonic_ns()
        if now_ns - self._told_ns < PROGRESS_NS:
            return
        self._told_ns = now_ns
        place = max(0, (self._words[RUNNING] & MAX_PLACE) - 1)
        frame = REPLY.pack(PROGRESS.size, Kind.PROGRESS, 0, self._rss_bytes) + PROGRESS.pack(place, done, total)
        try:
            sent = self._connection.send(frame, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return  # the parent is busy; what comes later says more
        if sent < len(frame):
            self._connection.sendall(frame[sent:])

    def _watch_memory(self) -> None:
        now_ns = monotonic_ns()
        if now_ns - self._rss_read_ns < RSS_READING_NS:
            return
        self._rss_read_ns = now_ns
        self._rss_bytes = self._memory.read() or 0
        if self._retire_rss_bytes is not None and self._rss_bytes > self._retire_rss_bytes:
            self._retiring = RETIRING

    def _reply(self, kind: Kind, elapsed_ns: int, payload: bytes = b"") -> None:
        header = REPLY.pack(len(payload), kind | self._retiring, elapsed_ns, self._rss_bytes)
        self._connection.sendall(header + payload)


def _dump_error(error: BaseException, code: str | None = None) -> bytes:
    raised = describe(error, code)
    # Pickled apart: an exception that cannot be rebuilt in the parent leaves its text.
    try:
        exception: bytes | None = pickle.dumps(error, pickle.HIGHEST_PROTOCOL)
    except Exception:
        exception = None
    if exception is not None and len(exception) > EXCEPTION_BYTES:
        exception = None
    return pickle.dumps((raised, exception), pickle.HIGHEST_PROTOCOL)
