"""`headrace embed-serve`: the embed stage of search as a service of its own."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.embedders import EndpointOption, ModelOption, embedder_for
from headrace.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from headrace.search.embedder import Embedder


class OpenToOthers(Exception):
    """Without keys, everybody who can reach the service may use it."""

    exit_code = ExitCode.UNSAFE_CONFIG


def embed_serve(
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="0 takes a free one.")] = 8081,
    keys: Annotated[
        Path | None,
        typer.Option(
            "--keys", metavar="FILE", help="The API keys, as `serve` has them. Without it: for this machine only."
        ),
    ] = None,
    delay_s: Annotated[
        float,
        typer.Option("--delay", metavar="SECONDS", help="How long a request that was let in may take, about."),
    ] = 2.0,
    tokens: Annotated[
        int | None,
        typer.Option("--tokens", metavar="COUNT", help="Tokens that may be in. [default: delay x measured rate]"),
    ] = None,
    sessions: Annotated[
        int | None,
        typer.Option("--sessions", metavar="COUNT", min=1, help="Model calls at once. [default: one for each core]"),
    ] = None,
    drain_deadline_s: Annotated[
        float,
        typer.Option("--drain-deadline", metavar="SECONDS", min=0.1, help="What is in may take so long at the end."),
    ] = 30.0,
    null: Annotated[
        bool, typer.Option("--null", help="No model: words hashed into 64 numbers. To try the flow.")
    ] = False,
    endpoint: EndpointOption = None,
    model: ModelOption = None,
) -> int:
    """Embed texts over HTTP as OpenAI's API has it (POST /v1/embeddings), and stay honest under overload.

    SIGTERM or Ctrl-C stops taking, finishes what is in by the drain deadline and ends; twice stops now.
    """
    from headrace.service.auth import Keys, is_loopback
    from headrace.service.embedding.desk import DeskLimits

    try:
        limits = DeskLimits(delay_s=delay_s, tokens=tokens)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--delay, --tokens") from error
    known = Keys.load(keys) if keys is not None else Keys()
    if known.open and not is_loopback(host):
        raise OpenToOthers(f"{host} can be reached by others: --keys FILE is needed, or --host 127.0.0.1")
    if null and endpoint is not None:
        raise typer.BadParameter("either no model or an endpoint", param_hint="--null, --endpoint")
    import uvloop

    return uvloop.run(
        _serve(host, port, known, limits, drain_deadline_s, null=null, of=(endpoint, model), sessions=sessions)
    )


async def _serve(
    host: str,
    port: int,
    keys: Any,
    limits: Any,
    drain_deadline_s: float,
    *,
    null: bool,
    of: tuple[str | None, str | None],
    sessions: int | None,
) -> int:
    from headrace.flow import Drain
    from headrace.service.embedding.app import EmbeddingApp
    from headrace.service.embedding.desk import open_desk
    from headrace.service.server import HttpServer

    signals: list[signal.Signals] = []
    stopping, now = asyncio.Event(), asyncio.Event()

    def on_signal(number: signal.Signals) -> None:
        signals.append(number)
        (stopping if len(signals) == 1 else now).set()

    embedder, longest, dimensions = _embedder(null=null, of=of, sessions=sessions)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal, number)
    async with open_desk(embedder, limits) as desk:
        server = HttpServer(EmbeddingApp(desk, keys=keys, longest=longest, dimensions=dimensions), host, port)
        try:
            await server.start()
            typer.echo(f"headrace: {server.url}/v1 embeds with {embedder.name}; capacity at /v1/capacity", err=True)
            await _first(stopping.wait(), server.ended(), desk.ended())
            if not signals:
                return ExitCode.BUG
            typer.echo(f"headrace: {signals[0].name}: taking nothing more, finishing what is in", err=True)
            drain = asyncio.create_task(Drain([desk], deadline_s=drain_deadline_s).run())
            await _first(asyncio.shield(drain), now.wait())
            if not drain.done():
                drain.cancel()
                await desk.hand_back()
                typer.echo("headrace: stopped at once; who waited was told to come back", err=True)
                return _code(signals[0])
            report = drain.result()
            typer.echo(
                f"headrace: drained in {report.took_s:.1f} s: {report.finished} finished, {report.handed_back} handed "
                f"back, {report.abandoned} abandoned",
                err=True,
            )
            return _code(signals[0]) if report.handed_back or report.abandoned else ExitCode.OK
        finally:
            await server.stop(at_once=now.is_set())
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)


def _embedder(
    *, null: bool, of: tuple[str | None, str | None], sessions: int | None
) -> tuple[Embedder, int | None, int | None]:
    """The embedder, the longest text that it reads whole, and the width of its vectors, where they are known."""
    if null:
        from headrace.search.null import NullEmbedder

        made = NullEmbedder()
        return made, None, made.dimensions
    embedder = embedder_for(*of, sessions=sessions)
    if of[0] is not None:
        return embedder, None, None
    from headrace.search.minilm import DIMENSIONS, LONGEST

    # It is cut where it is counted: what has the last count that is possible may have been longer.
    return embedder, LONGEST - 1, DIMENSIONS


async def _first(*waits: Any) -> None:
    """Returns when the first of them does; raises what that one raised."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()


def _code(number: signal.Signals) -> int:
    return ExitCode.SIGINT if number is signal.SIGINT else ExitCode.SIGTERM
