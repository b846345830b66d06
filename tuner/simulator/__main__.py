"""`python -m tuner.simulator`: compile the simulator's kernels now instead of at first use."""

from __future__ import annotations

import time

from tuner.simulator.run import prepare

if __name__ == "__main__":
    started = time.perf_counter()
    prepare()
    print(f"simulator kernels ready in {time.perf_counter() - started:.1f} s")
