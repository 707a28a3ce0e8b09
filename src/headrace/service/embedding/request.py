"""What a client asks for: the body of `POST /v1/embeddings`, checked, and the answer to it."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from headrace.search.embedder import Tokens, Vector
from headrace.service.problems import Problem, malformed

_MEMBERS = {"model", "input", "encoding_format", "dimensions", "user", "truncate"}


@dataclass(frozen=True, slots=True)
class EmbeddingRequest:
    """A checked request.

    Attributes:
        texts: at least 1.
        encoding: of the vectors: a list of numbers, or the base64 of little-endian 32-bit floats.
        truncate: whether a text that is too long is cut; else it is refused.
    """

    texts: tuple[str, ...]
    encoding: Literal["float", "base64"] = "float"
    truncate: bool = False

    @classmethod
    def parse(cls, content: bytes, *, model: str, dimensions: int | None, texts_most: int) -> EmbeddingRequest:
        """Reads a body.

        Args:
            content: the body.
            model: the only one that is here.
            dimensions: of the model; None when they are not known.
            texts_most: how many texts one request may have.

        Raises:
            Problem: 400, `errors` says where; 404, another model.
        """
        try:
            told = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise malformed("", f"the body is no JSON: {error}") from None
        if not isinstance(told, dict):
            raise malformed("", "the body is a JSON object with model and input")
        if unknown := sorted(told.keys() - _MEMBERS):
            raise malformed(f"/{unknown[0][:64]}", f"there is no {unknown[0][:64]}: {', '.join(sorted(_MEMBERS))}")
        asked = told.get("model")
        if not isinstance(asked, str):
            raise malformed("/model", f"model is the name of the model: {model}")
        if asked != model:
            raise Problem(
                "not-found",
                f"the model {asked[:128]!r} is not here; {model} is",
                errors=[{"pointer": "/model", "detail": "unknown"}],
            )
        width = told.get("dimensions")
        if width is not None and (isinstance(width, bool) or width != dimensions):
            known = f"the model's own, {dimensions}" if dimensions else "not to be chosen here"
            raise malformed("/dimensions", f"dimensions are {known}")
        encoding = told.get("encoding_format", "float")
        if encoding not in ("float", "base64"):
            raise malformed("/encoding_format", "encoding_format is float or base64")
        truncate = told.get("truncate", False)
        if not isinstance(truncate, bool):
            raise malformed("/truncate", "truncate is true or false")
        return cls(_texts(told.get("input"), texts_most), encoding, truncate)


def _texts(given: object, most: int) -> tuple[str, ...]:
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not texts:
        raise malformed("/input", "input is a text, or a list of at least 1 text")
    if len(texts) > most:
        raise malformed("/input", f"input has {len(texts)} texts, and one request may have {most}")
    for index, text in enumerate(texts):
        if isinstance(text, int | list):
            raise malformed(
                f"/input/{index}", "input is text: lists of tokens are not taken, as they fit one tokenizer"
            )
        if not isinstance(text, str) or not text:
            raise malformed(f"/input/{index}", f"input {index} is no text with at least 1 character")
    return tuple(texts)


def refuse_long(tokens: Sequence[Tokens], longest: int) -> None:
    """Refuses texts that the model would read only a part of.

    Raises:
        Problem: 400, with the first of them.
    """
    for index, text in enumerate(tokens):
        if text.count > longest:
            told = f"input {index} has more than {longest} tokens; shorten it, or send truncate: true to have it cut"
            raise malformed(f"/input/{index}", told)


def reply(vectors: Sequence[Vector], tokens: int, request: EmbeddingRequest, model: str) -> dict[str, Any]:
    """The answer, as OpenAI has it; vectors in the order of the texts."""
    data = [
        {"object": "embedding", "index": index, "embedding": _encoded(vector, request.encoding)}
        for index, vector in enumerate(vectors)
    ]
    return {
        "object": "list",
        "data": data,
        "model": model,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


def _encoded(vector: Vector, encoding: str) -> list[float] | str:
    if encoding == "base64":
        return base64.b64encode(np.asarray(vector, dtype="<f4").tobytes()).decode()
    numbers: list[float] = vector.tolist()
    return numbers
