"""`python -m tuner.simulator [speculative]`: compile the simulator's kernels, for one engine and
for fleets, now instead of at first use; with the word, the kernel for configurations with draft
tokens."""

from __future__ import annotations

import sys
import time

from tuner.simulator.compilation import prepare

if __name__ == "__main__":
    started = time.perf_counter()
    speculative = "speculative" in sys.argv[1:]
    prepare(speculative, fleet=not speculative)
    print(f"simulator kernels ready in {time.perf_counter() - started:.1f} s")
