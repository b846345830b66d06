"""`python -m tuner.simulator [engine | drafts | images | fleet ...]`: compile the simulator's
kernels now instead of at first use, by default all of them, in two processes."""

from __future__ import annotations

import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from tuner.simulator.compilation import ENGINE
from tuner.simulator.every_kernel import NAMES, compile_kernel


def main(names: list[str]) -> None:
    """Compile, and say how long it took."""
    unknown = sorted(set(names) - {ENGINE, *NAMES})
    if unknown:
        sys.exit(f"unknown kernel {unknown[0]!r}; known: {', '.join((ENGINE, *NAMES))}")
    started, wanted = time.perf_counter(), names or list(NAMES)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(2, len(wanted)), mp_context=spawn) as pool:
        for name, seconds in zip(wanted, pool.map(compile_kernel, wanted), strict=True):
            print(f"{name}: {seconds:.1f} s")
    print(f"simulator kernels ready in {time.perf_counter() - started:.1f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
