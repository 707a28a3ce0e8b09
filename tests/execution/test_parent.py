"""The parent as users have it: a script of its own; killed, interrupted, unguarded, with threads. All for real."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .support import processes_with, wait_for


class Script:
    """A script in a process group of its own, whose processes can be found by a tag in their environment."""

    def __init__(self, folder: Path, source: str) -> None:
        self.path = folder / "script.py"
        self.path.write_text(textwrap.dedent(source))
        self.tag = f"HEADRACE_TEST={uuid.uuid4().hex}"
        name, _, value = self.tag.partition("=")
        self.process = subprocess.Popen(
            [sys.executable, str(self.path)],
            cwd=folder,
            env={**os.environ, name: value},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def wait(self, timeout_s: float = 20) -> tuple[str, str]:
        return self.process.communicate(timeout=timeout_s)

    def wait_for_line(self, text: str) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if text in line:
                return
        raise AssertionError(f"no {text!r}: {self.process.stderr.read() if self.process.stderr else ''}")

    def close(self) -> None:
        for pid in processes_with(self.tag):
            os.kill(pid, signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    scripts: list[Script] = []

    def run(source: str) -> Script:
        scripts.append(Script(tmp_path, source))
        return scripts[-1]

    yield run
    for script in scripts:
        script.close()


BUSY = """
    import asyncio, os, time
    from headrace.execution import WorkerPool

    def work(n):
        if n == 0:
            print("at work", flush=True)
        while {forever}:
            pass
        time.sleep(0.02)
        return n

    async def main():
        async with WorkerPool.of(work, workers=4) as pool:
            async for outcome in pool.map(range(10**9), window=16):
                print("result", outcome.item, flush=True)

    async def supervise():
        task = asyncio.create_task(main())
        await asyncio.sleep(1.0)
        print("running", flush=True)
        await task

    if __name__ == "__main__":
        asyncio.run(supervise())
"""


@pytest.mark.parametrize("forever", [True, False])
def test_when_the_parent_is_killed_no_worker_lives_on(start: Any, forever: bool) -> None:
    script = start(BUSY.format(forever=forever))
    script.wait_for_line("running")
    assert len(processes_with(script.tag)) == 5
    script.process.kill()
    assert wait_for(lambda: processes_with(script.tag) == [], within_s=5)


@pytest.mark.parametrize("forever", [True, False])
@pytest.mark.parametrize("whom", ["group", "parent"])
def test_one_interrupt_ends_the_program_also_when_every_worker_hangs(start: Any, whom: str, forever: bool) -> None:
    script = start(BUSY.format(forever=forever))
    script.wait_for_line("running")
    begun = time.monotonic()
    (os.killpg if whom == "group" else os.kill)(script.process.pid, signal.SIGINT)
    _, err = script.wait()
    assert time.monotonic() - begun < 5
    assert script.process.returncode == -signal.SIGINT
    assert processes_with(script.tag) == []
    # only the parent says something, once: no worker prints a traceback of its own
    assert err.count("\nKeyboardInterrupt\n") == 1
    assert "execution/worker.py" not in err
    assert "never retrieved" not in err


def test_a_first_interrupt_drains_and_the_program_ends_by_itself(start: Any) -> None:
    script = start(
        """
        import asyncio, signal, time
        from headrace.execution import WorkerPool

        def work(n):
            time.sleep(0.1)
            return n

        async def main():
            async with WorkerPool.of(work, workers=2) as pool:
                loop = asyncio.get_running_loop()
                drains = []
                loop.add_signal_handler(signal.SIGINT, lambda: drains.append(loop.create_task(pool.drain(5))))
                results = pool.map(range(10**9), window=8)
                items = []
                async for outcome in results:
                    items.append(outcome.item)
                    if len(items) == 4:
                        print("running", flush=True)
                report = await drains[0]
                assert items == list(range(len(items)))
                print("left", report.left == results.left, report.killed, len(items))

        if __name__ == "__main__":
            asyncio.run(main())
        """
    )
    script.wait_for_line("running")
    os.killpg(script.process.pid, signal.SIGINT)
    out, err = script.wait()
    assert script.process.returncode == 0, err
    assert "left True 0" in out


def test_functions_factories_and_items_of_the_main_script_work(start: Any) -> None:
    script = start(
        """
        import asyncio
        from dataclasses import dataclass
        from headrace.execution import WorkerPool

        @dataclass
        class Item:
            n: int

        class Factory:
            def __call__(self):
                return double

        def double(item):
            return Item(2 * item.n)

        async def main():
            async with WorkerPool(Factory(), workers=2) as pool:
                print([outcome.value.n async for outcome in pool.map(map(Item, range(5)), window=4)])

        if __name__ == "__main__":
            asyncio.run(main())
        """
    )
    out, err = script.wait()
    assert out == "[0, 2, 4, 6, 8]\n", err


def test_a_script_whose_functions_live_elsewhere_is_not_imported_by_the_workers(start: Any) -> None:
    script = start(
        """
        import asyncio, operator
        from headrace.execution import WorkerPool

        print("imported", flush=True)

        async def main():
            async with WorkerPool.of(operator.neg, workers=2) as pool:
                print([outcome.value async for outcome in pool.map(range(3), window=4)])

        asyncio.run(main())
        """
    )
    out, err = script.wait()
    assert out == "imported\n[0, -1, -2]\n", err
    assert err == ""


def test_an_unguarded_main_module_is_a_clear_error_in_under_10_s(start: Any) -> None:
    script = start(
        """
        import asyncio
        from headrace.execution import WorkerPool

        def double(n):
            return 2 * n

        async def main():
            async with WorkerPool.of(double, workers=2) as pool:
                print([outcome.value async for outcome in pool.map(range(3), window=4)])

        asyncio.run(main())
        """
    )
    _, err = script.wait(10)
    assert script.process.returncode == 1
    assert "WorkerStartFailed" in err
    assert "if __name__ == '__main__'" in err
    assert processes_with(script.tag) == []


def test_an_unguarded_server_is_not_started_a_second_time(start: Any) -> None:
    script = start(
        """
        import asyncio, socket
        from headrace.execution import WorkerPool

        server = socket.socket()
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        server.bind(("127.0.0.1", 0))
        server.listen()
        print("listening", flush=True)

        def double(n):
            return 2 * n

        async def main():
            async with WorkerPool.of(double, workers=2) as pool:
                pass

        if __name__ == "__main__":
            asyncio.run(main())
        """
    )
    out, err = script.wait(10)
    assert out == "listening\n"
    assert "starts a server while a worker imports it" in err


def test_threads_that_hold_locks_while_the_pool_grows_do_not_hang_it(start: Any) -> None:
    script = start(
        """
        import asyncio, logging, os, threading
        from headrace.execution import WorkerPool

        logging.basicConfig(stream=open(os.devnull, "w"), level=logging.INFO)

        def chatter(stop):
            while not stop.is_set():
                logging.info("busy with the lock of the handler")

        def work(n):
            logging.getLogger().warning("from a worker")
            if n % 10 == 9:
                os._exit(1)
            return n

        async def main():
            stop = threading.Event()
            thread = threading.Thread(target=chatter, args=(stop,))
            thread.start()
            async with WorkerPool.of(work, workers=2) as pool:
                kinds = [type(outcome).__name__ async for outcome in pool.map(range(40), window=8)]
            stop.set()
            thread.join()
            print(kinds.count("Success"), kinds.count("Failure"))

        if __name__ == "__main__":
            asyncio.run(main())
        """
    )
    out, err = script.wait(30)
    assert out == "36 4\n", err
