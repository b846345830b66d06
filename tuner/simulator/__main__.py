"""`python -m tuner.simulator`: compile the simulator's kernels now instead of at first use."""

from __future__ import annotations

from tuner.simulator.run import prepare

if __name__ == "__main__":
    prepare()
