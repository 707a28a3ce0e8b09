"""What OpenAPI says of resumable uploads, which are plain ASGI."""

from __future__ import annotations

from typing import Any

from headrace.service.upload_dialects import OFFSET, PARTIAL

_BINARY = {"schema": {"type": "string", "format": "binary"}}
_TEXT = {"schema": {"type": "string"}}
_TOLD = ("Upload-Offset", "Upload-Complete", "Upload-Length", "Upload-Limit", "Upload-Expires", "Tus-Resumable")
_OF_TUS = "of tus 1.0.0, a second way to say the same: `Tus-Resumable: 1.0.0` chooses it"


def upload_paths(problems: dict[int, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The paths of resumable uploads.

    Args:
        problems: the answer of each status that is no success.
    """

    def answers(good: dict[int, tuple[str, tuple[str, ...]]], *statuses: int) -> dict[str, Any]:
        told: dict[str, Any] = {
            str(status): {"description": sentence, "headers": dict.fromkeys((*_TOLD, *more), _TEXT)}
            for status, (sentence, more) in good.items()
        }
        all_statuses = sorted({400, 401, 403, 404, 405, 500, 503, *statuses})
        return told | {str(status): problems[status] for status in all_statuses}

    document = {"application/json": {"schema": {"$ref": "#/components/schemas/DocumentReply"}}}
    accepted = ("On disk, and will be read", ("Location", "Retry-After", "Idempotency-Replayed"))
    whole = {200: ("Ready within Prefer: wait", accepted[1]), 202: accepted}
    begin = answers(
        {201: ("Begun; Location is the upload", ("Location", "Content-Location")), **whole},
        406, 408, 409, 412, 413, 415, 422, 429, 460,
    )  # fmt: skip
    append = answers(
        {204: ("The part is on disk", ("Content-Location",)), **whole}, 406, 408, 409, 410, 412, 413, 415, 422, 429, 460
    )
    for responses in (begin, append):
        for status in ("200", "202"):
            responses[status]["content"] = document
    classes = {"type": "string", "enum": ["interactive", "batch", "background"], "default": "interactive"}
    upload_id = {"name": "upload_id", "in": "path", "required": True, "schema": {"type": "string"}}
    looked = {
        status: {key: value for key, value in its.items() if key != "content"}  # HEAD: no body, whatever it is
        for status, its in answers(
            {200: ("Where it stands (tus)", ("Content-Location",)), 204: ("Where it stands", ("Content-Location",))},
            409, 410, 412, 429,
        ).items()
    }  # fmt: skip
    tags = {"tags": ["uploads"]}
    return {
        "/v1/uploads": {
            "post": tags
            | {
                "operationId": "begin_upload",
                "summary": "Begin a resumable upload, with or without its first bytes",
                "parameters": [
                    {"name": "class", "in": "query", "schema": classes},
                    {"name": "filename", "in": "query", **_TEXT},
                    {"name": "id", "in": "query", **_TEXT, "description": "Your own id of it"},
                    {"name": "batch", "in": "query", "schema": {"type": "integer", "minimum": 1}},
                    _header("Upload-Complete", "?0: more will come; ?1: this is all"),
                    _header("Upload-Length", "Bytes of the whole, as soon as you know it"),
                    _header("Repr-Digest", "sha-256=:...: of the whole"),
                    _header("Content-Digest", "sha-256=:...: of this part"),
                    _header("Idempotency-Key", "Of the document"),
                    _header("Tus-Resumable", f"1.0.0; with Upload-Defer-Length, Upload-Metadata, ...: {_OF_TUS}"),
                ],
                "requestBody": {"content": {"application/octet-stream": _BINARY, OFFSET: _BINARY}},
                "responses": begin,
            },
            "options": tags
            | {
                "operationId": "upload_options",
                "summary": "What uploads may be: Upload-Limit, Accept-Patch, Tus-Extension, ...",
                "responses": answers({204: ("What there is", ("Accept-Patch", "Tus-Version", "Tus-Extension"))}),
            },
        },
        "/v1/uploads/{upload_id}": {
            "patch": tags
            | {
                "operationId": "append_to_upload",
                "summary": "Add a part; the last one makes it a document",
                "parameters": [
                    upload_id,
                    _header("Upload-Offset", "Where this part begins"),
                    _header("Upload-Complete", "?1: the upload is complete with it"),
                    _header("Upload-Length", "Bytes of the whole, if it was not said before"),
                    _header("Content-Digest", "sha-256=:...: of this part"),
                    _header("Prefer", "wait=10, for the last part: answers 200 with the result when it is ready"),
                    _header("Tus-Resumable", f"1.0.0; with Upload-Checksum: {_OF_TUS}"),
                ],
                "requestBody": {"content": {PARTIAL: _BINARY, OFFSET: _BINARY}},
                "responses": append,
            },
            "head": tags
            | {
                "operationId": "look_at_upload",
                "summary": "Where an upload stands; ends the request that is still at it",
                "parameters": [upload_id],
                "responses": looked,
            },
            "delete": tags
            | {
                "operationId": "cancel_upload",
                "summary": "Remove an upload; a document that it became stays",
                "parameters": [upload_id],
                "responses": answers({204: ("It is gone", ())}, 409, 410, 412),
            },
        },
    }


def _header(name: str, sentence: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "schema": {"type": "string"}, "description": sentence}
