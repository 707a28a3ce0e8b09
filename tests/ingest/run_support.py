"""What the tests of `headrace run` share: a place with documents, and real processes that run there.

A process is forked from the tests, which have everything loaded: a started Python would cost half a second each time.
Its workers are spawned as always. `fresh=True` starts a Python of its own, for what only its end can show.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import headrace.cli.run
import headrace.ingest.runtime  # noqa: F401 - loaded here once, for all processes that are forked
from headrace.cli.app import main
from headrace.documents.entry import Entry
from headrace.ledger import verify
from headrace.storage.sqlite import SqliteStore
from headrace.storage.store import Accounts

FAULTS = Path(__file__).parent / "run_faults"
BENCH = Path(__file__).parents[2] / "bench"
LIMIT_S = 60.0  # nothing here may hang; the machine may be busy with other things
TAG = "RUN_UNDER_TEST"


class Process:
    """A running `headrace`, the head of a process group of its own."""

    def __init__(self, pid: int, folder: Path, tag: str, popen: subprocess.Popen[bytes] | None = None) -> None:
        self.pid = pid
        self.tag = tag
        self.fresh = popen is not None
        self._popen = popen
        self._stdout, self._stderr = folder / f"stdout-{tag}", folder / f"stderr-{tag}"
        self._code: int | None = None

    @property
    def stdout(self) -> bytes:
        """What it wrote so far; empty when its output was connected to something else."""
        return self._stdout.read_bytes() if self._stdout.exists() else b""

    @property
    def stderr(self) -> str:
        return self._stderr.read_text(errors="backslashreplace")

    def poll(self) -> int | None:
        """How it ended: its exit code, or minus the signal that killed it; None while it runs."""
        if self._code is None and self._popen is not None:
            self._code = self._popen.poll()
        elif self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code

    def wait(self, within_s: float = LIMIT_S) -> int:
        """Its exit code; a process that takes longer is killed and fails the test."""
        if not wait_for(lambda: self.poll() is not None, within_s=within_s):
            self.kill_tree()
            raise AssertionError(f"it did not end within {within_s} s; it said:\n{self.stderr}")
        assert self._code is not None
        return self._code

    def signal(self, number: signal.Signals) -> None:
        """As from a terminal: the whole group gets it."""
        os.killpg(self.pid, number)

    def kill_tree(self) -> None:
        """kill -9 of the process and its workers, which are in its group."""
        for kill in (os.killpg, os.kill):  # it may have died, or not be the head of a group yet
            with contextlib.suppress(ProcessLookupError):
                kill(self.pid, signal.SIGKILL)
        wait_for(lambda: self.poll() is not None)

    def workers(self) -> list[int]:
        """Its workers, by the mark in their environment."""
        return [pid for pid in _with_tag(self.tag) if pid != self.pid]


def wait_for(condition: Callable[[], Any], *, within_s: float = LIMIT_S) -> bool:
    """Waits until the condition is true; says whether it became so."""
    ends = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > ends:
            return False
        time.sleep(0.01)
    return True


def run_together(*cases: Iterator[Process], at_once: int = 2) -> None:
    """Runs test cases beside each other: each is a generator that yields the processes whose end it waits for."""
    waiting, running = list(cases), list[tuple[Iterator[Process], Process]]()
    ends = time.monotonic() + LIMIT_S
    while waiting or running:
        while waiting and len(running) < at_once:
            case = waiting.pop(0)
            if (process := next(case, None)) is not None:
                running.append((case, process))
        for case, process in list(running):
            if process.poll() is not None:
                running.remove((case, process))
                waiting.insert(0, case)
        assert time.monotonic() < ends, f"one did not end: {[process.stderr for _, process in running]}"
        time.sleep(0.005)


def _with_tag(tag: str) -> Iterator[int]:
    mark = f"{TAG}={tag}\0".encode()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as environ, open(f"/proc/{pid}/stat") as stat:
                if mark in environ.read() and stat.read().rpartition(")")[2].split()[0] != "Z":
                    yield int(pid)
        except OSError:
            continue


class Place:
    """A folder with documents, a workspace and an output, and the command line that goes with them."""

    def __init__(self, root: Path) -> None:
        root.mkdir(exist_ok=True)
        self.root = root
        self.documents = root / "in"
        self.workspace, self.output, self.summary_file = root / "workspace", root / "out.jsonl", root / "summary.json"
        self.started: list[Process] = []
        self.documents.mkdir(exist_ok=True)

    # What there is to read.

    def write(self, *names: str | bytes, folder: Path | None = None) -> list[Path]:
        """Documents of these names, each with bytes of its own."""
        folder = folder or self.documents
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / os.fsdecode(name) for name in names]
        for path in paths:
            path.write_bytes(b"document " + os.fsencode(path.name))
        return paths

    def numbered(self, count: int) -> list[Path]:
        return self.write(*(f"r{number}.jpg" for number in range(1, count + 1)))

    def begun(self) -> list[str]:
        """Names of faulty documents that a worker began, in order, each as often as it was begun."""
        notes = self.documents / ".begun"
        return notes.read_text().splitlines() if notes.exists() else []

    def open_gate(self) -> None:
        (self.documents / ".open").touch()

    # Running.

    def arguments(self, sources: Sequence[str] = ("in",), *options: str, output: str | None = None) -> list[str]:
        return [
            "run", *sources, "--engine", "null", "--workers", "1", "--commit-batch", "4",
            "--workspace", str(self.workspace), "-o", output or str(self.output),
            "--summary-json", str(self.summary_file), *options,
        ]  # fmt: skip

    def start(
        self,
        *options: str,
        sources: Sequence[str] = ("in",),
        output: str | None = None,
        stdin: BinaryIO | int | None = None,
        stdout: int | None = None,
        crash: Sequence[str] = (),
        fresh: bool = False,
    ) -> Process:
        """Starts `headrace run`. `crash` is a step to die at: (function, when, the how-many-eth call)."""
        self.summary_file.unlink(missing_ok=True)
        tag = f"{os.getpid()}-{id(self)}-{len(self.started)}"
        arguments = self.arguments(sources, *options, output=output)
        environment = {"PYTHONPATH": os.pathsep.join([str(FAULTS), *sys.path]), TAG: tag}
        with contextlib.ExitStack() as files:
            null = files.enter_context(open(os.devnull, "rb"))
            out = files.enter_context(open(self.root / f"stdout-{tag}", "wb"))
            err = files.enter_context(open(self.root / f"stderr-{tag}", "wb"))
            fds = (_fd(stdin if stdin is not None else null), _fd(stdout if stdout is not None else out), err.fileno())
            if fresh:
                popen = subprocess.Popen(
                    [sys.executable, "-m", "headrace", *arguments], cwd=self.root, start_new_session=True,
                    stdin=fds[0], stdout=fds[1], stderr=fds[2], env={**os.environ, **environment},
                )  # fmt: skip
                process = Process(popen.pid, self.root, tag, popen)
            else:
                process = Process(_fork(arguments, self.root, environment, fds, crash), self.root, tag)
        self.started.append(process)
        return process

    def run(self, *options: str, code: int = 0, **how: Any) -> Process:
        """Starts `headrace run` and waits for its end, which must have this exit code."""
        process = self.start(*options, **how)
        ended = process.wait()
        assert ended == code, f"exit code {ended} instead of {code}; it said:\n{process.stderr}"
        if self.summary_file.exists():
            assert self.summary["workspace"]
        return process

    # What came out.

    @property
    def summary(self) -> dict[str, Any]:
        """The summary of the last run. Its accounting identity must hold, and its order.

        So must its ceiling where the process has a Python of its own; a forked one begins with the memory of the tests.
        """
        summary: dict[str, Any] = json.loads(self.summary_file.read_text())
        ends = ("succeeded", "partial", "duplicates", "failed", "in_flight")
        assert summary["accepted"] == sum(summary[name] for name in ends), summary
        if self.started[-1].fresh:
            assert 0 < summary["peak_rss_bytes"] <= summary["rss_ceiling_bytes"], summary
        assert summary["order_ok"] is not False, summary
        return summary

    def ledger(self, book: str = "main") -> list[Entry]:
        """All entries; their chain must hold."""
        with SqliteStore.read(self.workspace) as store:
            entries = store.entries(book=book, limit=100_000)
            checked = verify(entries, store.head(book))
        assert checked.holds, checked.fault
        return entries

    def accounts(self, batch_id: int = 1) -> Accounts:
        with SqliteStore.read(self.workspace) as store:
            return store.accounts(batch_id)

    def hashes(self) -> list[str]:
        return [entry.entry_hash for entry in self.ledger()]

    def lines(self, data: bytes | None = None) -> list[dict[str, Any]]:
        """The lines of the output, which must all be whole."""
        data = self.output.read_bytes() if data is None else data
        assert data == b"" or data.endswith(b"\n")
        return [json.loads(line) for line in data.splitlines()]

    def names(self, lines: Iterable[Mapping[str, Any]] | None = None) -> list[str]:
        """Names of the documents in the output, in order."""
        return [os.path.basename(line["source"]["uri"]) for line in (self.lines() if lines is None else lines)]

    def problem(self, expected: Sequence[str] | None = None) -> str:
        """What is wrong between ledger and output; empty when each entry is in the output once, in order."""
        hashes = self.hashes()
        lines = [line["ledger"]["entry_hash"] for line in self.lines()]
        if expected is not None and hashes != list(expected):
            return f"the ledger has {len(hashes)} entries that are not the {len(expected)} expected"
        return "" if lines == hashes else f"the output has {len(lines)} lines, the ledger {len(hashes)} entries"


def _fd(file: BinaryIO | int) -> int:
    return file if isinstance(file, int) else file.fileno()


def _fork(
    arguments: list[str], folder: Path, environment: Mapping[str, str], fds: tuple[int, int, int], crash: Sequence[str]
) -> int:
    pid = os.fork()
    if pid == 0:
        _become_headrace(arguments, folder, environment, fds, crash)
    return pid


def _become_headrace(
    arguments: list[str], folder: Path, environment: Mapping[str, str], fds: tuple[int, int, int], crash: Sequence[str]
) -> NoReturn:
    code = 70
    try:
        os.setsid()
        os.chdir(folder)
        os.environ.update(environment)
        for number, fd in enumerate(fds):
            os.dup2(fd, number)
        os.closerange(3, 4096)  # a pipe of the tests that stays open here would never end
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115
        sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
        sys.argv = ["headrace", *arguments]
        signal.signal(signal.SIGINT, signal.default_int_handler)
        warnings.resetwarnings()
        warnings.simplefilter("ignore")
        if crash:
            sys.path.insert(0, str(BENCH))
            from crashing import install

            install(crash[0], crash[1], int(crash[2]))
        code = main(arguments)
        sys.stdout.flush()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 70
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)
