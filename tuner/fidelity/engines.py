"""Step-time tables, KV capacity and planner's estimates of every deployment of the rows."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass

import numpy as np

from profiler.engine_config import EngineConfig
from profiler.engines.base import Progress, kv_blocks_at
from profiler.engines.silicon.build import build_silicon, complete
from profiler.engines.silicon.source import open_model, open_published
from profiler.engines.silicon.spec import SiliconSpec, Terms
from profiler.errors import DoesNotFitError, SiliconError
from profiler.latency.base import StepTimeModel
from profiler.latency.params import IntArray
from tuner.fidelity.rows import Row
from tuner.fidelity.servers import SHARED, spec_of

NO_DATA = "no published kernel times for this model, GPU and number format"
NO_ROOM = "weights or one request do not fit the GPU's memory"
_NODES = 21
"""along each axis of an attention grid: a quarter of a profile's, within 1 % of it"""
_NUM_SHAPES = 30
"""for the sampled region, which nothing here asks about"""
_BUDGETS = (2048, 8192, 16384)
"""token budgets of the servers"""

Workload = tuple[int, int, int]
"""longest prompt, longest output, concurrency"""


@dataclass(frozen=True)
class Engine:
    """One deployment; plain data, so that a worker process can hand it back."""

    kernel_model: StepTimeModel
    """GPU kernel time alone"""
    resolved: EngineConfig
    kv_blocks_by_budget: tuple[tuple[int, int], ...]
    capture_sizes: IntArray
    num_layers: int
    kv_share_by_budget: tuple[tuple[int, float], ...]
    """(token budget, part of a GPU's memory that is left for KV)"""
    planner: dict[Workload, tuple[float, float]]
    """TTFT and TPOT of NVIDIA's static estimate, seconds"""

    def model(self, terms: Terms) -> StepTimeModel:
        """The latency model with `terms`."""
        return complete(self.kernel_model, terms, self.capture_sizes, self.num_layers)

    def num_kv_blocks(self, budget: int) -> int:
        """KV blocks when the engine is started with this token budget."""
        return kv_blocks_at(budget, self.kv_blocks_by_budget)

    def kv_share(self, budget: int) -> float:
        """Part of a GPU's memory that is left for KV."""
        budgets, shares = zip(*self.kv_share_by_budget, strict=True)
        return float(np.interp(budget, budgets, shares))


def workload_of(row: Row) -> Workload:
    """What the planner is asked about."""
    return row.isl, row.osl, row.concurrency


def build_engine(spec: SiliconSpec, workloads: Iterable[Workload]) -> Engine | str:
    """The deployment of `spec`, or the reason why there is none."""
    try:
        silicon = build_silicon(spec, SHARED, nodes=_NODES, num_shapes=_NUM_SHAPES)
        with open_model(spec.model) as (folder, _):
            published = open_published(spec, folder)
            estimate = published.planner()
            memory = {b: published.memory(b) for b in _BUDGETS}
    except DoesNotFitError:
        return NO_ROOM
    except SiliconError:
        return NO_DATA
    planner = {}
    for work in workloads:
        ttft_ms, tpot_ms = estimate(*work)
        planner[work] = (ttft_ms * 1e-3, tpot_ms * 1e-3)
    return Engine(
        kernel_model=silicon.kernel_model,
        resolved=silicon.resolved,
        kv_blocks_by_budget=silicon.kv_blocks_by_budget,
        capture_sizes=silicon.capture_sizes,
        num_layers=silicon.num_layers,
        kv_share_by_budget=tuple((b, m.left / m.capacity) for b, m in memory.items()),
        planner=planner,
    )


def build_engines(
    rows: Iterable[Row], workers: int, progress: Progress | None = None
) -> tuple[dict[SiliconSpec, Engine], dict[str, str]]:
    """The deployments of `rows`, built in `workers` processes, and the reason for each row (by its
    id) that has none."""
    wanted: dict[SiliconSpec, list[Row]] = {}
    for row in rows:
        wanted.setdefault(spec_of(row), []).append(row)
    engines: dict[SiliconSpec, Engine] = {}
    reasons: dict[str, str] = {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        jobs = {
            pool.submit(build_engine, spec, sorted({workload_of(row) for row in own})): spec
            for spec, own in wanted.items()
        }
        for done, job in enumerate(as_completed(jobs), start=1):
            spec, found = jobs[job], job.result()
            if isinstance(found, Engine):
                engines[spec] = found
            else:
                reasons |= {row.id: found for row in wanted[spec]}
            if progress:
                progress(done, len(jobs))
    return engines, reasons
