"""Which embedder a command takes: the model of this machine, or an endpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from headrace.search.embedder import Embedder

EndpointOption = Annotated[
    str | None,
    typer.Option(
        "--endpoint",
        metavar="URL",
        help="Embed by this service instead of the model of this machine, such as http://127.0.0.1:8081/v1. Its key: "
        "HEADRACE_EMBEDDINGS_KEY.",
    ),
]
ModelOption = Annotated[str | None, typer.Option("--model", metavar="NAME", help="The model of the endpoint.")]


def embedder_for(endpoint: str | None, model: str | None, *, sessions: int | None = None) -> Embedder:
    """The embedder that was asked for.

    Args:
        endpoint: its address; None for the model of this machine.
        model: of the endpoint.
        sessions: of the model of this machine; one for each core when not given.
    """
    if (endpoint is None) != (model is None):
        raise typer.BadParameter("an endpoint needs a model, and a model an endpoint", param_hint="--endpoint, --model")
    if endpoint is None or model is None:
        from headrace.search.minilm import MiniLM

        return MiniLM(sessions=sessions)
    from headrace.search.endpoint import EndpointEmbedder

    try:
        return EndpointEmbedder(endpoint, model)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--endpoint") from error


def model_name(endpoint: str | None, model: str | None) -> str:
    """What the vectors of this embedder are kept under, without loading it."""
    if endpoint is not None and model is not None:
        from headrace.search.endpoint import endpoint_name

        return endpoint_name(endpoint, model)
    from headrace.search.minilm import MiniLM

    return MiniLM.name
