"""`headrace serve`: takes documents over HTTP."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.exit_codes import ExitCode
from headrace.cli.options import run_options

if TYPE_CHECKING:
    from headrace.flow import DrainReport
    from headrace.ingest.bounds import Bounds
    from headrace.ingest.settings import RunSettings

DOOR = "Door"
_GARBAGE_OBJECTS = 10_000  # in cycles that nobody refers to, before they are looked for: a few MB at most


class OpenToOthers(Exception):
    """Without keys, everybody who can reach the service may do everything."""

    exit_code = ExitCode.UNSAFE_CONFIG


@run_options
def serve(
    given: Mapping[str, object],
    config: Path | None,
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="Where to listen.", rich_help_panel=DOOR)
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="0 takes a free one.", rich_help_panel=DOOR)
    ] = 8080,
    keys: Annotated[
        Path | None,
        typer.Option(
            "--keys",
            metavar="FILE",
            help="The API keys, hashed. Without it the service is open, to this machine only.",
            rich_help_panel=DOOR,
        ),
    ] = None,
    new_key: Annotated[
        str | None,
        typer.Option(
            "--new-key",
            metavar="CLIENT:ROLES",
            help="Add a key to the file, show it once, and end. Roles: submit, read, review, admin.",
            rich_help_panel=DOOR,
        ),
    ] = None,
    limits: Annotated[
        Path | None,
        typer.Option(
            "--limits",
            metavar="FILE",
            help="A TOML file with limits of requests, of the service, and quotas; SIGHUP reads it again.",
            rich_help_panel=DOOR,
        ),
    ] = None,
    debug: Annotated[
        bool,
        typer.Option("--debug", help="Say in the answer what a bug was; not for others.", rich_help_panel=DOOR),
    ] = False,
) -> int:
    """Take documents over HTTP: durable before they are accepted, and honest under overload.

    SIGTERM or Ctrl-C stops taking, finishes what is in by the drain deadline and ends; twice stops now.
    """
    if new_key is not None:
        return _new_key(keys, new_key)
    from headrace.execution.memory import return_memory_promptly

    return_memory_promptly()
    from headrace.flow.machine import Machine
    from headrace.ingest.bounds import derive
    from headrace.ingest.engine_costs import ENGINE_COSTS
    from headrace.ingest.settings import RunSettings
    from headrace.service.auth import Keys, is_loopback
    from headrace.service.limits import Limits, load_limits

    settings = RunSettings.load(given, config=config)
    bounds = derive(settings, Machine.read(), ENGINE_COSTS[settings.engine])
    known = Keys.load(keys) if keys is not None else Keys()
    told = load_limits(limits) if limits is not None else Limits()
    if known.open and not is_loopback(host):
        raise OpenToOthers(f"{host} can be reached by others: --keys FILE is needed, or --host 127.0.0.1")
    service = Service(settings, bounds, known, told, keys_path=keys, limits_path=limits, debug=debug)
    import uvloop

    return uvloop.run(service.run(host, port))


def _settle_garbage() -> None:
    """Leaves what is there now out of all later collections.

    A full one of the 100,000 objects that the libraries are made of stood in the way of every request for 90 to 340 ms.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GARBAGE_OBJECTS, 10, 10)  # by default 700: a collection for every few documents that wait


def _new_key(path: Path | None, told: str) -> int:
    from headrace.service.auth import make_key

    if path is None:
        raise typer.BadParameter("--new-key needs --keys FILE, where it is kept")
    typer.echo(make_key(path, told))
    typer.echo(f"headrace: added to {path}; this is the only time it is shown", err=True)
    return ExitCode.OK


class Service:
    """The reception and its HTTP side in one event loop, and the signals that end them.

    Shutdown in three steps: close (not ready, nothing more is taken, but questions are answered), drain (what is in is
    finished or handed back by the deadline), then the HTTP side ends. The second signal skips to the end.
    """

    def __init__(
        self,
        settings: RunSettings,
        bounds: Bounds,
        keys: Any,
        limits: Any,
        *,
        keys_path: Path | None,
        limits_path: Path | None,
        debug: bool,
    ) -> None:
        self._settings, self._bounds = settings, bounds
        self._keys, self._limits = keys, limits
        self._keys_path, self._limits_path = keys_path, limits_path
        self._debug = debug
        self._signals: list[signal.Signals] = []
        self._stopping = asyncio.Event()
        self._now = asyncio.Event()

    async def run(self, host: str, port: int) -> int:
        """Serves until a signal; returns the exit code."""
        from headrace.ledger import Policy
        from headrace.service.app import create_app
        from headrace.service.edge import Edge
        from headrace.service.reception import Reception
        from headrace.service.server import HttpServer

        settings = self._settings
        policy = Policy.load(settings.policy) if settings.policy else Policy()
        reception = Reception(settings, self._bounds, self._limits.service, policy)
        self._edge = Edge(reception, settings.max_document_bytes, self._keys, self._limits, debug=self._debug)
        server = HttpServer(create_app(self._edge), host, port)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal, number)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        work = asyncio.create_task(reception.run(), name="reception")
        try:
            await reception.opened()
            _settle_garbage()
            await server.start()
            self._tell(server.url)
            return await self._until_end(reception, server, work)
        finally:
            self._edge.closing.set()
            await server.stop(at_once=self._now.is_set())
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                loop.remove_signal_handler(number)

    async def _until_end(self, reception: Any, server: Any, work: asyncio.Task[None]) -> int:
        asked = asyncio.create_task(self._stopping.wait())
        at_once = asyncio.create_task(self._now.wait())
        http = asyncio.create_task(server.ended())
        waits = (asked, at_once, http)
        try:
            await asyncio.wait({asked, http, work}, return_when=asyncio.FIRST_COMPLETED)
            if not self._signals:  # one of the two sides broke: its error is what is to be told
                for task in (work, http):
                    if task.done():
                        task.result()
                return ExitCode.BUG
            drain = asyncio.create_task(reception.stop(self._settings.drain_deadline_s))
            await asyncio.wait({drain, at_once}, return_when=asyncio.FIRST_COMPLETED)
            if not drain.done():
                drain.cancel()
                await asyncio.gather(drain, return_exceptions=True)
                typer.echo(
                    "headrace: stopped at once; what was in is in the store and goes on at the next start", err=True
                )
                return self._code()
            report: DrainReport = drain.result()
            typer.echo(
                f"headrace: drained in {report.took_s:.1f} s: {report.finished} finished, {report.handed_back} handed "
                f"back, {report.abandoned} abandoned",
                err=True,
            )
            for error in report.errors:
                typer.echo(f"headrace: {error}", err=True)
            return self._code() if report.handed_back or report.abandoned else ExitCode.OK
        finally:
            for task in waits:
                task.cancel()

    def _code(self) -> int:
        return ExitCode.SIGINT if self._signals[0] is signal.SIGINT else ExitCode.SIGTERM

    def _on_signal(self, number: signal.Signals) -> None:
        self._signals.append(number)
        if len(self._signals) == 1:
            typer.echo(
                f"headrace: {number.name}: taking nothing more, finishing what is in "
                f"(at most {self._settings.drain_deadline_s:g} s; once more stops now)",
                err=True,
            )
            self._stopping.set()
        else:
            self._now.set()

    def _reload(self) -> None:
        """SIGHUP: limits and keys as their files have them now; what makes no sense changes nothing."""
        from headrace.service.auth import KeysError
        from headrace.service.limits import LimitsError, load_limits

        try:
            keys = self._edge.keys.reloaded(self._keys_path) if self._keys_path else self._edge.keys
            limits = load_limits(self._limits_path) if self._limits_path else self._edge.limits
        except (KeysError, LimitsError) as error:
            typer.echo(f"headrace: not reloaded: {error}", err=True)
            return
        self._edge.keys, self._edge.limits = keys, limits
        self._edge.reception.change_limits(limits.service)
        typer.echo("headrace: limits and keys are reloaded", err=True)

    def _tell(self, url: str) -> None:
        from headrace.cli.formats import counted
        from headrace.flow.sizing import readable_bytes

        bounds, capacity = self._bounds, self._edge.reception.capacity()
        taken = {bound.name: bound for bound in capacity.bounds}
        documents = taken.get("documents")
        room = f", takes up to {documents.limit:g} documents" if documents is not None and documents.limit else ""
        typer.echo(
            f"headrace: {counted(bounds.workers, 'worker')}, window {bounds.window}{room}, RSS ceiling "
            f"{readable_bytes(bounds.tree_ceiling_bytes)} ({bounds.tree_ceiling_bytes} bytes); headrace plan shows why",
            err=True,
        )
        who = "this machine only, no key needed" if self._edge.keys.open else f"{len(self._edge.keys.keys)} keys"
        typer.echo(f"headrace: {url} ({who}); API at {url}/docs, capacity at {url}/v1/capacity", err=True)
