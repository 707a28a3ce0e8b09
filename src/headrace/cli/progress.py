"""Progress of a run on standard error: a live panel on a terminal, a line every few seconds elsewhere, or JSON."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from enum import StrEnum
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO

from headrace.cli.panel import log_line, panel_lines
from headrace.ingest.snapshot import Phase, Snapshot

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

LIVE_EVERY_S = 0.2
LINE_EVERY_S = 5.0


class Display(StrEnum):
    """How progress is shown."""

    LIVE = "live"
    LINES = "lines"
    JSON = "json"
    OFF = "off"


def choose_display(
    *,
    quiet: bool = False,
    no_progress: bool = False,
    json_logs: bool = False,
    results_on_terminal: bool = False,
    stream: TextIO | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Display:
    """How to show progress here: quiet wins, then JSON; the panel is for a terminal that can move its cursor.

    Args:
        quiet, no_progress: `-q`, `--no-progress`.
        json_logs: `--json-logs`.
        results_on_terminal: results are printed to the same terminal, where a panel would overwrite them.
        stream: where it would go; None is standard error.
        environment: `NO_COLOR`, `CI` and `TERM=dumb` ask for plain lines.
    """
    if quiet or no_progress:
        return Display.OFF
    if json_logs:
        return Display.JSON
    unfit = results_on_terminal or environment.get("TERM") == "dumb"
    plain = unfit or environment.get("NO_COLOR") or environment.get("CI")
    return Display.LIVE if not plain and (stream or sys.stderr).isatty() else Display.LINES


class Progress:
    """Shows snapshots as they come, on standard error; a context manager.

    `update` may be called as often as one likes: it shows five a second at most (one in five seconds where it writes
    lines), and always a change of phase. It starts no thread. A terminal that goes away ends the display, not the run.
    """

    def __init__(
        self, display: Display, *, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Prepares the display; nothing is shown before the first update.

        Args:
            display: how to show it, see `choose_display`.
            stream: where to; None is standard error.
            clock: monotonic seconds.
        """
        self.display = display
        self._stream = stream or sys.stderr
        self._clock = clock
        self._started = clock()
        self._shown_at = -math.inf
        self._phase: Phase | None = None
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self.display is Display.LIVE:
            from rich.console import Console
            from rich.live import Live

            console = Console(file=self._stream, force_terminal=True, highlight=False, emoji=False)
            # No refresh thread: a process that starts workers has none it does not need. Standard output stays what
            # it is: results go there, and Rich would print them into the panel.
            self._live = Live(
                console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=True
            )
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            live, self._live = self._live, None
            self._surviving(live.stop)

    def update(self, snapshot: Snapshot) -> None:
        """Shows a snapshot when its turn has come."""
        if self.display is Display.OFF:
            return
        now = self._clock()
        every_s = LIVE_EVERY_S if self.display is Display.LIVE else LINE_EVERY_S
        if now - self._shown_at < every_s and snapshot.phase is self._phase:
            return
        self._shown_at, self._phase = now, snapshot.phase
        self._surviving(lambda: self._show(snapshot, now - self._started))

    def note(self, text: str) -> None:
        """Says one thing that happened, above the panel or as a line; also where progress is off."""
        if self._live is not None:
            from rich.text import Text

            live = self._live
            self._surviving(lambda: live.console.print(Text(text)))
        elif self.display is Display.JSON:
            self._surviving(lambda: self._write_json("note", {"message": text}))
        else:
            self._surviving(lambda: self._write(f"headrace: {text}"))

    def _show(self, snapshot: Snapshot, elapsed_s: float) -> None:
        if self._live is not None:
            self._live.update(panel(snapshot, self._live.console.width, elapsed_s), refresh=True)
        elif self.display is Display.JSON:
            self._write_json("progress", asdict(snapshot))
        else:
            self._write(log_line(snapshot))

    def _write_json(self, event: str, values: Mapping[str, Any]) -> None:
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        # ASCII only: one line stays one line for every reader, whatever is in a file name.
        finite = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in values.items()}
        self._write(json.dumps({"time": at, "event": event} | finite))

    def _write(self, line: str) -> None:
        self._stream.write(line + "\n")
        self._stream.flush()

    def _surviving(self, show: Callable[[], object]) -> None:
        try:
            show()
        except (OSError, ValueError):  # the terminal is gone, or the stream was closed
            self.display = Display.OFF
            self._live = None


def panel(snapshot: Snapshot, width: int, elapsed_s: float) -> RenderableType:
    """The live panel: `panel_lines` in a frame that names the phase and the time."""
    from rich import box
    from rich.panel import Panel
    from rich.text import Text

    from headrace.cli.formats import duration

    inside = max(10, min(width, 100) - 4)
    lines = panel_lines(snapshot, inside)
    # Assembled, never parsed: a file called "[bold]" is shown as it is called.
    text = Text("\n").join(Text.assemble(*((part.text, part.style) for part in line)) for line in lines)
    text.no_wrap = True
    title = Text.assemble((f" {snapshot.phase} ", "bold"))
    style = "yellow" if snapshot.phase is Phase.DRAINING else "blue"
    return Panel(
        text,
        title=title,
        title_align="left",
        subtitle=Text(f" {duration(elapsed_s)} "),
        subtitle_align="right",
        box=box.ROUNDED,
        border_style=style,
        width=inside + 4,
    )
