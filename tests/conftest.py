"""For all tests: a terminal's Ctrl-C means the same wherever they run; seeded schedules are counted and replayed."""

from __future__ import annotations

import signal
import time
from collections.abc import Generator
from typing import Any

import pytest

from headrace.flow import schedule

# A job that a shell starts in the background ignores SIGINT, and so would every process that the tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Schedules:
    """Counts the schedules of each test that is marked `schedules`, and tells how to replay one that failed."""

    def __init__(self) -> None:
        self.made = 0
        self.lines: list[str] = []
        make = schedule.ScheduledLoop.__init__

        def counted(loop: schedule.ScheduledLoop, of: schedule.Schedule) -> None:
            self.made += 1
            make(loop, of)

        schedule.ScheduledLoop.__init__ = counted  # type: ignore[method-assign]

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, None]:
        made, began = self.made, time.perf_counter()
        yield
        if item.get_closest_marker("schedules"):
            self.lines.append(f"schedules: {self.made - made} in {time.perf_counter() - began:.1f} s of {item.nodeid}")

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
        report = (yield).get_result()
        notes = getattr(call.excinfo.value, "__notes__", []) if call.excinfo else []
        seed = next((note.split()[2] for note in notes if note.startswith("schedule seed ")), None)
        if seed is not None and report.failed:
            report.sections.append(("replay", f"HEADRACE_TEST_SEED={seed} pytest '{item.nodeid}'"))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if terminalreporter.config.getoption("markexpr") == "schedules":  # script/soak reads these
            for line in self.lines:
                terminalreporter.line(line)
        if self.made:
            terminalreporter.line(f"{self.made:,} seeded schedules")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "schedules: runs a scenario under seeded schedules; script/soak runs a million")
    config.pluginmanager.register(Schedules())
