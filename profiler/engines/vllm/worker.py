"""`PinnedWorker`: vLLM's CPU worker for a forked process.

vLLM gives each CPU worker its cores through OpenMP's environment variables, which OpenMP reads
once, when it is loaded. A spawned worker loads it anew, at the price of importing everything
again (9 s); a forked one has it loaded already, and so takes up the same cores by itself.
"""

from __future__ import annotations

import os

import torch
from vllm.utils.ompmultiprocessing import OMPProcessManager
from vllm.v1.worker.cpu_worker import CPUWorker


class PinnedWorker(CPUWorker):  # type: ignore[misc]  # vllm ships no types
    """Computes on the cores that vLLM chose for this rank, as a spawned worker would."""

    def init_device(self) -> None:
        """As the parent, after taking up the cores."""
        manager = OMPProcessManager(self.vllm_config)
        if not manager.skip_setup:
            cores = manager.cpu_lists[self.local_rank]
            os.sched_setaffinity(0, cores)
            torch.set_num_threads(len(cores))
        super().init_device()
