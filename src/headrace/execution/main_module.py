"""Functions of the user's main script in a worker: the script is imported under another name, when it is asked for.

A function defined in the main script is pickled as `__main__.name`, but in a worker `__main__` is the worker. So a
stand-in takes the name and imports the script, as multiprocessing does it, the first time something of it is needed;
a worker whose functions all live in proper modules never imports it.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Any

UNGUARDED = (
    "the main module starts {what} while a worker imports it; put what it runs under `if __name__ == '__main__':`, "
    "or move the function to a module of its own"
)

Preparation = dict[str, Any]

_importing = False


def importing() -> bool:
    """Whether this process is a worker that is importing the user's main script."""
    return _importing


def _refuse_servers(event: str, _arguments: tuple[Any, ...]) -> None:
    # An unguarded script would run as a whole in every worker: a second server, a pool in the pool. Those it must not.
    if _importing and event == "socket.bind":
        raise RuntimeError(UNGUARDED.format(what="a server"))


class MainModule(ModuleType):
    """Stands for the parent's `__main__` and gives way to it when something of it is asked for."""

    def __init__(self, data: Preparation) -> None:
        super().__init__("__main__")
        self._data = data

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or _importing:
            raise AttributeError(name)
        _import_main(self._data)
        main = sys.modules["__main__"]
        if main is self:  # a package's __main__.py, which multiprocessing never runs
            raise AttributeError(
                f"the main module cannot be imported in a worker; move {name!r} to a module of its own"
            )
        return getattr(main, name)


def _import_main(data: Preparation) -> None:
    global _importing
    import multiprocessing.process
    import multiprocessing.spawn

    sys.addaudithook(_refuse_servers)
    process: Any = multiprocessing.process.current_process()
    _importing, process._inheriting = True, True
    try:
        multiprocessing.spawn.prepare({key: value for key, value in data.items() if key.startswith("init_main")})
    finally:
        _importing, process._inheriting = False, False


def preparation() -> Preparation:
    """What a worker must know of this process to import its main script: paths, arguments, name or file."""
    data: Preparation = {"sys_path": [path or os.getcwd() for path in sys.path], "sys_argv": list(sys.argv)}
    main = sys.modules["__main__"]
    sys.modules.setdefault("__mp_main__", main)  # what results of classes of the script are pickled as
    name = getattr(getattr(main, "__spec__", None), "name", None)
    path = getattr(main, "__file__", None)
    if name is not None:
        data["init_main_from_name"] = name
    elif path is not None:
        data["init_main_from_path"] = os.path.abspath(path)
    return data


def prepare(data: Preparation) -> None:
    """Takes over the parent's import paths and arguments, and puts the stand-in in the place of `__main__`."""
    sys.path[:] = data["sys_path"]
    sys.argv[:] = data["sys_argv"]
    if "init_main_from_name" in data or "init_main_from_path" in data:
        sys.modules["__main__"] = MainModule(data)
