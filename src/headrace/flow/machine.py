"""What there is to use: cores and memory, as the operating system and its groups of processes limit them.

The readers take the root folder as an argument, so that a test can show them any machine.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.flow.sizing import KIB, Derived, readable_bytes

_NO_LIMIT_BYTES = 2**60  # cgroup v1 writes "no limit" as the largest page-aligned signed number


@dataclass(frozen=True, slots=True)
class Machine:
    """What there is to use: cores this process may run on, memory its whole tree may take."""

    cores: Derived[int]
    memory_bytes: Derived[int]

    @classmethod
    def read(cls, root: Path = Path("/")) -> Machine:
        """Looks at the machine, or at the picture of one below `root`."""
        return cls(available_cores(root), available_memory_bytes(root))


def available_cores(root: Path = Path("/"), *, affinity: int | None = None) -> Derived[int]:
    """Cores this process may use: the affinity mask and the cgroup quota, whichever is smaller; at least 1.

    A quota of one core and a half counts as two: the second worker runs half of the time, and a quota throttles, it
    does not kill.

    Args:
        root: where `proc` and `sys` are.
        affinity: cores in the mask; None asks the operating system.
    """
    mask = affinity if affinity is not None else len(os.sched_getaffinity(0))
    quotas = [quota for quota in _cpu_quotas(root) if quota > 0]
    if not quotas:
        return Derived(max(1, mask), "cores", f"{mask} by affinity, no cgroup quota = {max(1, mask)}")
    quota = min(quotas)
    cores = max(1, min(mask, math.ceil(quota)))
    return Derived(cores, "cores", f"min({mask} by affinity, {quota:g} by cgroup quota, rounded up) = {cores}")


def available_memory_bytes(root: Path = Path("/")) -> Derived[int]:
    """Memory this process and its children may take: the cgroup's limit and what is free now, whichever is smaller.

    Free means `MemAvailable` of the kernel (what could be had without swapping), or all memory where there is no such
    line.

    Raises:
        OSError: neither a cgroup limit nor `proc/meminfo` could be read: set the limit by hand.
    """
    terms: dict[str, int] = {}
    limits = [limit for limit in _memory_limits(root) if 0 < limit < _NO_LIMIT_BYTES]
    if limits:
        terms["cgroup limit"] = min(limits)
    information = _meminfo(root)
    for line in ("MemAvailable", "MemTotal"):
        if line in information:
            terms[line] = information[line]
            break
    if not terms:
        raise OSError("neither a cgroup memory limit nor /proc/meminfo can be read; set memory_limit_bytes by hand")
    value = min(terms.values())
    shown = ", ".join(f"{readable_bytes(term)} {name}" for name, term in terms.items())
    because = f"min({shown}) = {readable_bytes(value)}" if len(terms) > 1 else shown
    return Derived(value, "bytes", because)


def _cpu_quotas(root: Path) -> Iterator[float]:
    """Cores granted by each group from ours to the top: a parent's quota binds its children."""
    for folder in _groups(root, ""):
        words = _words(folder / "cpu.max")
        if len(words) == 2 and words[0].isdigit() and int(words[1] or 0) > 0:
            yield int(words[0]) / int(words[1])
    for folder in _groups(root, "cpu"):
        quota, period = _words(folder / "cpu.cfs_quota_us"), _words(folder / "cpu.cfs_period_us")
        if quota and period and quota[0].isdigit() and period[0].isdigit() and int(period[0]) > 0:
            yield int(quota[0]) / int(period[0])


def _memory_limits(root: Path) -> Iterator[int]:
    files = [(folder, name) for folder in _groups(root, "") for name in ("memory.max", "memory.high")]
    files += [(folder, "memory.limit_in_bytes") for folder in _groups(root, "memory")]
    for folder, name in files:
        words = _words(folder / name)
        if words and words[0].isdigit():
            yield int(words[0])


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Our group's folder and those above it; "" is the unified hierarchy (v2), a name one of the old ones (v1).

    In a container the path of `proc/self/cgroup` may be the host's and not exist inside: then only the mount counts.
    """
    for line in _lines(root / "proc/self/cgroup"):
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controller not in controllers.split(","):
            continue
        base = root / "sys/fs/cgroup"
        mount = next((m for m in (base / controllers, base / controller) if m.is_dir()), base) if controller else base
        below = [part for part in path.split("/") if part]
        for depth in range(0 if ".." in below else len(below), -1, -1):
            yield mount.joinpath(*below[:depth])
        return


def _meminfo(root: Path) -> dict[str, int]:
    found = {}
    for line in _lines(root / "proc/meminfo"):
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            found[name] = int(words[0]) * KIB
    return found


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _words(path: Path) -> list[str]:
    return " ".join(_lines(path)[:1]).split()
