"""What OpenAPI says of the routes: the answers that they share, and the uploads, which are plain ASGI."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from headrace.ocr.media import MEDIA_TYPES
from headrace.service import reply_models
from headrace.service.openapi_uploads import upload_paths
from headrace.service.problems import KINDS, MEDIA_TYPE

_ALWAYS = (401, 403, 404, 405, 406, 500, 503)
_UPLOADS = (400, 401, 403, 405, 406, 408, 409, 413, 415, 422, 429, 500, 503)
_PROBLEM = {"$ref": "#/components/schemas/ProblemReply"}


def answers(good: dict[int, type[BaseModel] | None], *problems: int) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route: what it gives when all is well, and the problems it may have."""
    told: dict[int | str, dict[str, Any]] = {
        status: {"model": model, "description": "Good"} if model else {"description": "Good"}
        for status, model in good.items()
    }
    for status in sorted({*_ALWAYS, *problems}):
        told[status] = _problem(status)
    return told


def describe(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document of the app, with what FastAPI does not know of."""
    from fastapi.openapi.utils import get_openapi

    schema = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes, tags=app.openapi_tags
    )
    schemas = schema.setdefault("components", {}).setdefault("schemas", {})
    for model in (
        reply_models.ProblemReply,
        reply_models.FieldError,
        reply_models.DocumentReply,
        reply_models.LedgerPlace,
        reply_models.AmendmentReply,
    ):
        told = model.model_json_schema(ref_template="#/components/schemas/{model}")
        told.pop("$defs", None)
        schemas.setdefault(model.__name__, told)
    schema["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    schema["security"] = [{"key": []}, {}]
    # What the framework would answer to a bad parameter, it never does here.
    schemas.pop("HTTPValidationError", None)
    schemas.pop("ValidationError", None)
    for path in schema["paths"].values():
        for operation in path.values():
            if "HTTPValidationError" in str(operation.get("responses", {}).get("422", "")):
                del operation["responses"]["422"]
    schema["paths"]["/v1/documents"] = {"post": _upload("submit_document", "Hand in one document", [])}
    batch_id = {"name": "batch_id", "in": "path", "required": True, "schema": {"type": "integer", "minimum": 1}}
    schema["paths"]["/v1/batches/{batch_id}/documents"] = {
        "post": _upload("add_document", "Add one document to an open batch", [batch_id], 404)
    }
    problems = {status: _problem(status) for status in sorted({kind.status for kind in KINDS.values()})}
    schema["paths"] |= upload_paths(problems)
    return schema


def _problem(status: int) -> dict[str, Any]:
    return {"description": _titles(status), "content": {MEDIA_TYPE: {"schema": _PROBLEM}}}


def _upload(name: str, sentence: str, parameters: list[dict[str, Any]], *more: int) -> dict[str, Any]:
    document = {"schema": {"$ref": "#/components/schemas/DocumentReply"}}
    headers = {
        "Location": {"schema": {"type": "string"}},
        "Retry-After": {"schema": {"type": "integer"}},
        "Idempotency-Replayed": {"schema": {"type": "string"}},
        "Preference-Applied": {"schema": {"type": "string"}},
    }
    responses: dict[str, Any] = {
        "200": {
            "description": "Ready within Prefer: wait",
            "content": {"application/json": document},
            "headers": headers,
        },
        "202": {
            "description": "On disk, and will be read",
            "content": {"application/json": document},
            "headers": headers,
        },
    }
    for status in sorted({*_UPLOADS, *more}):
        responses[str(status)] = _problem(status)
    binary = {"schema": {"type": "string", "format": "binary"}}
    form = {
        "schema": {
            "type": "object",
            "properties": {"file": {"type": "string", "format": "binary"}},
            "required": ["file"],
        }
    }
    classes = {"type": "string", "enum": ["interactive", "batch", "background"], "default": "interactive"}
    return {
        "operationId": name,
        "summary": sentence,
        "tags": ["documents"],
        "parameters": [
            *parameters,
            {"name": "class", "in": "query", "schema": classes},
            {"name": "filename", "in": "query", "schema": {"type": "string"}},
            {"name": "id", "in": "query", "schema": {"type": "string"}, "description": "Your own id of it"},
            _header("Idempotency-Key", "A name of yours for this request; the same one again gets the same answer"),
            _header("Prefer", "wait=10 answers 200 with the result when it is ready within 10 s"),
            _header("Repr-Digest", "sha-256=:...: of the bytes; other bytes are refused"),
            _header("X-Deadline-Ms", "How long to wait for room instead of being refused at once"),
        ],
        "requestBody": {
            "required": True,
            "content": {
                **dict.fromkeys((*MEDIA_TYPES, "application/octet-stream"), binary),
                "multipart/form-data": form,
            },
        },
        "responses": responses,
    }


def _header(name: str, sentence: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "schema": {"type": "string"}, "description": sentence}


def _titles(status: int) -> str:
    return "; ".join(f"{code}: {kind.title}" for code, kind in KINDS.items() if kind.status == status) or "A problem"
