"""What stops an engine from starting. Errors of single documents are in `headrace.documents.errors`.

EngineUnavailable       nothing can be read with this engine in this installation
  UnknownEngine         there is no engine of this name
  MissingDependency     a package, or a model in it, is absent or not the right one; says what to install
"""

from __future__ import annotations


class EngineUnavailable(Exception):
    """The engine cannot be made here; the message says what to do. It is about the installation, never a document."""


class UnknownEngine(EngineUnavailable):
    """There is no engine of this name."""


class MissingDependency(EngineUnavailable):
    """A package or model that the engine needs is absent, or is not the one it needs."""
