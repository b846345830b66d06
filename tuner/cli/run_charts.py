"""One simulated run as charts: distributions of TTFT and ITL, queue and KV use over time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.text import Text

from profiler.outcomes import Outcomes
from tuner.cli.charts import Series, chart, chart_size, is_wide
from tuner.cli.whatif import Case
from tuner.search.settings import resolve
from tuner.simulator import Simulation, Timeline
from tuner.slo import Slo
from tuner.spans import spans

FloatArray = npt.NDArray[np.float64]
PERCENTS = np.concatenate([np.arange(0.5, 99.0, 0.5), np.arange(99.0, 100.0, 0.05), [100.0]])
_LONG_S = 900.0
"""from here on time is shown in minutes"""


def print_run_charts(case: Case, simulation: Simulation, console: Console) -> None:
    """TTFT, ITL, waiting requests, KV use; those for which there are data."""
    size = chart_size(console)
    problem, line = case.problem, simulation.timeline
    console.print(*distributions(simulation.outcomes, problem.slo, size), sep="\n")
    if line is not None and line.num_steps:
        full = resolve(case.config, problem.resolved)
        blocks = (full.num_gpu_blocks_override or problem.num_kv_blocks) - 1
        console.print(*over_time(line, blocks, size), sep="\n")


def distributions(outcomes: Outcomes, slo: Slo, size: tuple[int, int]) -> list[Text]:
    """Cumulative distributions of TTFT and ITL, with the SLO limits."""
    ttft = outcomes.first_token_s - outcomes.arrival_s
    ttft = ttft[np.isfinite(ttft)]
    weight = outcomes.gap_weight.sum(axis=1)
    charts = []
    if ttft.size:
        limits = [limit.ttft_p99_s for limit in slo.limits]
        charts.append(_cdf("TTFT", ttft, np.ones(ttft.size, dtype=np.int64), limits, size))
    if weight.sum():
        limits = [limit.itl_p99_s for limit in slo.limits]
        charts.append(_cdf("ITL", outcomes.gap_s, weight, limits, size))
    return charts


def _cdf(
    name: str,
    values: FloatArray,
    weight: npt.NDArray[np.int64],
    limits: Sequence[float],
    size: tuple[int, int],
) -> Text:
    order = np.argsort(values)
    reached = np.cumsum(weight[order])
    at = np.searchsorted(reached, PERCENTS / 100 * reached[-1])
    ms = 1e3 * values[order][np.minimum(at, values.size - 1)]
    series = [Series("•", f"{name}, % of all up to it", ms, PERCENTS)]
    for limit in sorted({x for x in limits if x == x}):
        y = np.linspace(0, 100, 2 * size[1])
        series.append(Series("|", f"SLO {1e3 * limit:g} ms", np.full(y.size, 1e3 * limit), y))
    log = ["x"] if is_wide(ms) else []
    return chart(f"{name}, ms: cumulative distribution", series, size, log=log)


def over_time(line: Timeline, usable_blocks: int, size: tuple[int, int]) -> list[Text]:
    """Requests waiting and running, and KV blocks in use, against time; the most in each column."""
    unit, per = ("min", 60.0) if line.end_s[-1] > _LONG_S else ("s", 1.0)
    time = line.end_s / per
    used = 100.0 * (1.0 - line.free_blocks / usable_blocks)
    waiting = Series("•", "waiting", *peaks(time, line.num_waiting, size[0]))
    running = Series("·", "running", *peaks(time, line.num_running, size[0]))
    kv = Series("•", "", *peaks(time, used, size[0]))
    return [
        chart(f"requests waiting and running against time, {unit}", [running, waiting], size),
        chart(f"KV blocks in use, %, against time, {unit}", [kv], size),
    ]


def peaks(
    time: FloatArray, values: npt.NDArray[np.generic], columns: int
) -> tuple[FloatArray, FloatArray]:
    """The largest value in each of `columns` equal spans of time; spans without any are left out.

    Parameters
    ----------
    time, values
        (S,) each; times ascending.
    """
    middles, starts = spans(time, columns)
    return middles, np.maximum.reduceat(values, starts).astype(np.float64)
