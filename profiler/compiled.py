"""The only place that configures numba.

numba's own disk cache looks at the time stamp of the outer function's file alone, and so keeps
stale machine code when a helper in another file changes. Here the cache folder is named after the
content of *all* kernel sources, so that any change starts a fresh one.

With `NUMBA_DISABLE_JIT` set in the environment numba is not even imported: kernels are then plain
Python, which is how a process that must not hold numba evaluates the latency model.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_ROOT = Path(__file__).resolve().parent.parent
_KERNEL_SOURCES = (
    "profiler/steps.py",  # constants
    "profiler/latency/params.py",
    "profiler/latency/step_time.py",
    "profiler/latency/tabulated.py",
    "tuner/simulator/*.py",
)


_OPTIONS = {"cache": True, "fastmath": False, "error_model": "python", "_nrt": False}
_INNER = {"forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


@cache
def kernel_digest() -> str:
    """Digest of every kernel source, and of what else decides whether machine code fits here:
    numba's and Python's version, the processor, and the checking mode."""
    import llvmlite.binding as llvm
    import numba
    from numba.core import config as numba_config

    processor = f"{llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"
    mode = f"{numba.__version__} {sys.implementation.cache_tag} {numba_config.BOUNDSCHECK}"
    digest = hashlib.sha256(f"{mode} {processor}".encode())
    for pattern in ("profiler/compiled.py", *_KERNEL_SOURCES):
        for path in sorted(_ROOT.glob(pattern)):
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def cache_folder() -> Path:
    """Where machine code is kept: `$STALLFREE_CACHE`; in a virtual environment inside it, because
    it goes with its numba and its Python; else the user's cache folder."""
    given = os.environ.get("STALLFREE_CACHE")
    if given:
        root = Path(given)
    elif sys.prefix != sys.base_prefix and os.access(sys.prefix, os.W_OK):
        root = Path(sys.prefix) / "share"
    else:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "stallfree" / "kernels" / kernel_digest()


def is_cached(function: Callable[..., Any]) -> bool:
    """Whether calling the kernel `function` needs no compiler: its machine code is on disk, or
    `NUMBA_DISABLE_JIT=1` asks for none."""
    name = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}-*.nbc"
    return not _compiles() or any(cache_folder().glob(f"*/{name}"))


def compiled(function: F) -> F:
    """Compile `function` to machine code, kept on disk. Strict IEEE, no parallelism.

    A kernel must not create arrays: it is compiled without reference counting (`_nrt=False`),
    because counting the arrays of a nested NamedTuple at every call costs more than the simulation
    itself (measured: 20 times the whole run). Callers keep the arrays alive.

    `NUMBA_DISABLE_JIT=1` leaves it a plain Python function with the same results.
    """
    return _compile(function, _OPTIONS)


def inner(function: F) -> F:
    """`compiled` for a function that only kernels call: always inlined, no entry from Python.

    A call that is not inlined passes the nested NamedTuple as hundreds of scalars (measured: the
    simulation is 2 to 5 times as fast inlined), and unpacking it in an entry from Python is a third
    of the compile time.
    """
    return _compile(function, _OPTIONS | _INNER)


def _compiles() -> bool:
    """Whether there is a compiler: `NUMBA_DISABLE_JIT` switches it off."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return False
    from numba.core import config as numba_config

    return not numba_config.DISABLE_JIT


def _compile(function: F, options: dict[str, Any]) -> F:
    if not _compiles():
        return function
    import numba
    from numba.core import config as numba_config

    saved = numba_config.CACHE_DIR
    numba_config.CACHE_DIR = str(cache_folder())
    try:
        wrapped: F = numba.njit(**options)(function)
    finally:
        numba_config.CACHE_DIR = saved
    return wrapped
