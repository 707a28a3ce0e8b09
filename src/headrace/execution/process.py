"""One worker process as its parent sees it: started, spoken to, killed and reaped, all from the event loop.

No thread and no blocking wait: the socket and the process itself (its pidfd) are file descriptors the loop watches.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from time import monotonic_ns
from typing import Any, NamedTuple, Protocol

from headrace.execution.memory import ResidentMemory
from headrace.execution.process_end import describe_exit, open_pidfd
from headrace.execution.progress import Progress
from headrace.execution.statistics import WorkerState
from headrace.execution.window import Chunk
from headrace.execution.wire import PARENT_DECIDES, PROGRESS, REPLY, REQUEST, RETIRING, Doing, Kind, Page

EXIT_GRACE_S = 2.0  # for a worker that was told to end: its exit handlers, its threads
REAP_S = 0.02  # between looks at a dying process where the kernel has no pidfd
STUCK = "stuck"  # the code of a worker that was given work and begins none
TARGET_NS = 20_000_000  # work in flight per worker; at half of it there is more: a busy machine may be late by that
SLOW_NS = 50_000_000  # from here on the trip costs under 1 %, and nothing should wait behind a slow chunk
DEPTH_LIMIT = 64
SOCKET_BYTES = 1 << 20
RECEIVE_BYTES = 1 << 18


Reply = tuple[Chunk[Any, Any], int, int, bytes | bytearray]
"""What came back for a chunk: the chunk, the kind of answer, ns in the function, payload."""


class End(NamedTuple):
    """Why a worker was ended, or ended itself."""

    code: str
    detail: str


class Owner(Protocol):
    """Who is told what happens to a worker."""

    def on_ready(self, worker: WorkerProcess) -> None:
        """The factory has run."""

    def on_replies(self, worker: WorkerProcess, replies: list[Reply]) -> None:
        """Chunks were answered, in the order they were sent."""

    def on_progress(self, worker: WorkerProcess, progress: Progress) -> None:
        """It says how far it is with the first chunk in flight."""

    def on_exit(self, worker: WorkerProcess) -> None:
        """The process is gone and reaped; all its replies came before. `in_flight` is what it leaves unanswered."""


class WorkerProcess:
    """A running worker.

    Attributes:
        pid: its process id.
        in_flight: chunks that were sent and not answered, in order; the first is the one it is on, if any.
        quota: items it may still be given before it is replaced; None for no end.
        depth: chunks it may have in flight.
        chunk_ns: running average of the time a chunk takes; None before the first.
        progress: how far it is with the item it is on; None when it did not say.
        end: why it was killed or died; None while it lives.
        progress_ns: when it last answered, or was given something after it had nothing.
        answering_ns: when the last part of an answer came whose rest is to come; 0 when there is none.
    """

    def __init__(self, owner: Owner, greeting: bytes, environment: Mapping[str, str], quota: int | None) -> None:
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self.state = WorkerState.STARTING
        self.in_flight: deque[Chunk[Any, Any]] = deque()
        self.quota = quota
        self.depth = 1
        self.chunk_ns: int | None = None
        self.items_done = 0
        self.rss_bytes = 0
        self.progress: Progress | None = None
        self.end: End | None = None
        self.start_error = ""
        self.progress_ns = monotonic_ns()
        self.answering_ns = 0
        self._excused = (0, 0)
        self._buffer = memoryview(bytearray(RECEIVE_BYTES))  # kept: to allocate one for each reading costs 40 us
        self._received = bytearray()
        self._unsent: deque[bytes] = deque()
        self._writing = False
        self._last_doing: Doing | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self.page = Page()
        self._socket, child = socket.socketpair()
        try:
            self._process = self._spawn(child, environment)
        except BaseException:
            self._socket.close()
            self.page.close()
            raise
        finally:
            child.close()
            self.page.close_fd()
        self.pid = self._process.pid
        self._memory = ResidentMemory(self.pid)
        self._socket.setblocking(False)
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            self._socket.setsockopt(socket.SOL_SOCKET, option, SOCKET_BYTES)
        self._reading = True
        self._loop.add_reader(self._socket.fileno(), self.receive)
        self._pidfd = open_pidfd(self.pid)
        if self._pidfd is not None:
            self._loop.add_reader(self._pidfd, self._reap)
        self._unsent.append(REQUEST.pack(len(greeting), 0, 0) + greeting)
        self.flush()

    def _spawn(self, child: socket.socket, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        fds = (child.fileno(), self.page.fd)
        # The parent's import paths go along, because headrace itself may have been found by one that was added.
        program = (
            f"import sys; sys.path[:] = {[path or os.getcwd() for path in sys.path]!r}; "
            f"from headrace.execution import worker; worker.main({fds[0]}, {fds[1]}, {os.getpid()})"
        )
        # A terminal sends Ctrl-C to the worker, too. Blocked, it waits until the worker has said that it ignores it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, PARENT_DECIDES)
        try:
            return subprocess.Popen(
                [sys.executable, "-c", program, "headrace-worker"],
                stdin=subprocess.DEVNULL,
                stdout=2,  # what a library prints must not get into the parent's output
                pass_fds=fds,
                env={**os.environ, **environment},
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    @property
    def usable(self) -> bool:
        """Whether it can be given work."""
        return self.state in (WorkerState.IDLE, WorkerState.BUSY)

    def give(self, chunk: Chunk[Any, Any], payload: bytes) -> None:
        """Puts a chunk in line for the worker; `flush` sends it."""
        if not self.in_flight:
            self.progress_ns = monotonic_ns()
            self.state = WorkerState.BUSY
        self.in_flight.append(chunk)
        count = len(chunk.items)
        if self.quota is not None:
            self.quota -= count
        self._unsent += (REQUEST.pack(len(payload), chunk.position, count), payload)

    def adapt_depth(self, replies: Sequence[Reply], limit: int, *, fixed: bool) -> None:
        """Chooses how many chunks it may have in flight, from the time they take; at most doubles."""
        if fixed:
            self.depth = limit
            return
        average_ns = replies[0][2] if self.chunk_ns is None else self.chunk_ns
        for _, _, elapsed_ns, _ in replies:
            average_ns += (elapsed_ns - average_ns) // 8
        self.chunk_ns = average_ns
        wanted = 1 if average_ns >= SLOW_NS else max(2, TARGET_NS // (average_ns + 1))
        self.depth = max(1, min(wanted, 2 * self.depth, limit))

    def reset_depth(self) -> None:
        """Forgets how long chunks take: another map may bring other ones."""
        self.depth, self.chunk_ns = 1, None

    def flush(self) -> None:
        """Sends what is in line, as far as the socket takes it; the rest goes when it has room."""
        if self._writing or not self._unsent or self._socket.fileno() < 0:
            return
        data = self._unsent[0] if len(self._unsent) == 1 else b"".join(self._unsent)
        self._unsent.clear()
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            return  # it is dying; its exit will say why
        if sent < len(data):
            self._unsent.append(data[sent:])
            self._writing = True
            self._loop.add_writer(self._socket.fileno(), self._writable)

    def _writable(self) -> None:
        self._loop.remove_writer(self._socket.fileno())
        self._writing = False
        self.flush()

    def receive(self) -> None:
        """Takes in what the worker has answered by now; never waits."""
        if not self._reading:
            return
        try:
            data = self._buffer[: self._socket.recv_into(self._buffer)].tobytes()
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._stop_reading()
            # It closed its end: it is ending. A process that lingers is helped.
            self._later(EXIT_GRACE_S, self.kill, End("worker-lost", "the worker closed its connection and lived on"))
            if self._pidfd is None:
                self._later(0, self._reap)
            return
        if self._received:
            self._received += data
            del self._received[: self._parse(self._received)]
        else:
            self._received += data[self._parse(data) :]
        self.answering_ns = monotonic_ns() if self._received else 0

    def _parse(self, data: bytes | bytearray) -> int:
        """Takes in the replies that are there in full; says how many bytes those are."""
        position, size, header = 0, len(data), REPLY.size
        replies: list[Reply] = []
        done = 0
        while size - position >= header:
            length, kind, elapsed_ns, rss_bytes = REPLY.unpack_from(data, position)
            begin = position + header
            end = begin + length
            if end > size:
                break
            payload = data[begin:end]
            position = end
            self.rss_bytes = rss_bytes
            if kind & RETIRING:
                kind &= ~RETIRING
                self.retire()
            if kind == Kind.READY:
                self._started()
            elif kind == Kind.START_FAILED:
                self.start_error = payload.decode()
            elif kind == Kind.PROGRESS:
                self.progress = Progress(*PROGRESS.unpack(payload))
                self._owner.on_progress(self, self.progress)
            else:
                self.progress = None
                chunk = self.in_flight.popleft()
                replies.append((chunk, kind, elapsed_ns, payload))
                done += 0 if kind == Kind.RETURNED else len(chunk.items)
        if replies:
            self.progress_ns = monotonic_ns()
            if not self.in_flight and self.state is WorkerState.BUSY:
                self.state = WorkerState.IDLE
            self._owner.on_replies(self, replies)
            self.items_done += done
        return position

    def _started(self) -> None:
        if self.state is WorkerState.STARTING:
            self._cancel_timers()
            self.state = WorkerState.IDLE
            self._owner.on_ready(self)

    def limit_start(self, timeout_s: float) -> None:
        """Kills the worker when it is not ready by then."""
        detail = f"the factory did not return within {timeout_s:g} s"
        self._later(timeout_s, self.kill, End("start-failed", detail))

    def retire(self) -> None:
        """Gives it no more; it is to be ended by `finish` when what it has is answered."""
        if self.usable:
            self.state = WorkerState.RETIRING

    def finish(self, end: End) -> None:
        """Lets it end by itself, running its exit handlers; killed when that takes longer than `EXIT_GRACE_S`."""
        if self.state is WorkerState.GONE or self.end is not None:
            return
        self.state, self.end = WorkerState.RETIRING, end
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        self._later(EXIT_GRACE_S, self._send_kill)

    def kill(self, end: End) -> None:
        """Ends it now. The first reason given is the one that counts."""
        if self.state is WorkerState.GONE:
            return
        if self.end is None:
            self.end = end
        self.state = WorkerState.RETIRING
        self._send_kill()

    def discard(self, end: End) -> None:
        """Kills it, and takes no more interest in what it had in flight."""
        self._stop_reading()
        self.in_flight.clear()
        self.kill(end)

    def _send_kill(self) -> None:
        self._process.kill()
        if self._pidfd is None:
            self._later(REAP_S, self._reap)

    def _reap(self) -> None:
        returncode = self._process.poll()
        if self.state is WorkerState.GONE:
            return
        if returncode is None:
            if self._pidfd is None:
                self._later(REAP_S, self._reap)
            return
        while self._reading and self._readable():  # what it said last still counts
            self.receive()
        if self.end is None:
            self.end = End("worker-lost", describe_exit(returncode, self.rss_bytes))
        self._release()
        self._owner.on_exit(self)

    def _readable(self) -> bool:
        try:
            return bool(self._socket.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    def reap_now(self, timeout_s: float) -> None:
        """Kills and waits, blocking: for ends that must not be put off. Its owner is not told."""
        if self.state is WorkerState.GONE:
            return
        self._process.kill()
        # One that does not go is in the kernel, out of reach; it is dead as soon as it comes back.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        self._release()

    def _release(self) -> None:
        self._cancel_timers()
        self._stop_reading()
        if self._writing:
            self._loop.remove_writer(self._socket.fileno())
            self._writing = False
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
        self._socket.close()
        self._memory.close()
        self._unsent.clear()
        self._last_doing = self.page.doing()
        self.page.close()
        self.state = WorkerState.GONE

    def sample_memory(self) -> int:
        """Its resident memory now."""
        rss_bytes = self._memory.read()
        if rss_bytes is not None:
            self.rss_bytes = rss_bytes
        return self.rss_bytes

    def doing(self) -> Doing | None:
        """What it is on; of a worker that is gone, what it was on at its end."""
        return self._last_doing if self.state is WorkerState.GONE else self.page.doing()

    def excuse(self, since_ns: int, lost_ns: int) -> None:
        """Remembers time that does not count for what it has been on since then."""
        self._excused = (since_ns, self.excused_ns(since_ns) + max(0, lost_ns))

    def excused_ns(self, since_ns: int) -> int:
        """The time that does not count for what it has been on since then."""
        return self._excused[1] if self._excused[0] == since_ns else 0

    def set_ceiling(self, position: int) -> None:
        """It gives back, not begun, what starts beyond this position."""
        if self.state is not WorkerState.GONE:
            self.page.set_ceiling(position)

    def _later(self, delay_s: float, call: Any, *arguments: Any) -> None:
        self._timers = [timer for timer in self._timers if timer.when() > self._loop.time()]
        self._timers.append(self._loop.call_later(delay_s, call, *arguments))

    def _cancel_timers(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def _stop_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._socket.fileno())
