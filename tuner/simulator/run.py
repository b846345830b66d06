"""The Python boundary of the simulator: check, cast, allocate, call, decode the status."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from profiler.engine_config import EngineConfig
from profiler.errors import KnobError, SimulationError
from profiler.latency.base import StepTimeModel
from profiler.outcomes import Outcomes, Status
from profiler.traffic.trace import Trace
from tuner.simulator.kernel import run_all
from tuner.simulator.memory import allocate, grow_logs
from tuner.simulator.state import (
    LOG_FULL,
    NUM_GAPS,
    NUM_PREEMPTIONS,
    NUM_ROWS,
    NUM_STEPS,
    STUCK,
    FloatArray,
    IntArray,
    Limits,
    Requests,
    State,
)

NUM_JITTER = 4096
"""length of the sequence of residuals that step times are multiplied by, over and over"""


@dataclass(frozen=True)
class StepRecord:
    """What every step did; rows in order of time, then in the engine's order."""

    step: IntArray
    """(rows,) number of the busy step"""
    request: IntArray
    """(rows,) index into the trace"""
    tokens: IntArray
    """(rows,) tokens scheduled; -1 marks a preemption"""
    before: IntArray
    """(rows,) tokens computed before"""
    free: IntArray
    """(rows,) free KV blocks after scheduling"""


@dataclass(frozen=True)
class Simulation:
    """Result of one simulation."""

    outcomes: Outcomes
    num_steps: int
    num_preemptions: int
    simulation_s: float
    """seconds inside the kernel"""
    record: StepRecord | None = None
    """filled when asked for"""


def simulate(  # noqa: PLR0913  (keyword-only options)
    trace: Trace,
    config: EngineConfig,
    model: StepTimeModel,
    *,
    num_kv_blocks: int,
    itl_limit_s: FloatArray | None = None,
    seed: int | None = 0,
    record: bool = False,
) -> Simulation:
    """Replay `trace` through an exact copy of vLLM 0.32's scheduler under `config`.

    Parameters
    ----------
    trace
        Traffic; N requests.
    config
        Fully resolved settings (a chosen configuration over the engine's own defaults).
    model
        Step-latency model.
    num_kv_blocks
        KV blocks of the engine, the null block included; one less is usable.
    itl_limit_s
        (C,) ITL limit of each class, seconds, for `Outcomes.num_slow_gaps`; NaN for none.
    seed
        Draws the measured jitter of step times; None leaves it out.
    record
        Also return what every step did (slow; for tests and timelines).

    Raises
    ------
    KnobError
        `config` is incomplete, clashes, or asks for a rule that is not simulated.
    SimulationError
        The traffic holds nothing to simulate, or the run cannot make progress.
    """
    prepare(model)
    limits = build_limits(config, num_kv_blocks, record)
    if itl_limit_s is None:
        itl_limit_s = np.full(len(trace.class_names), np.nan)
    accepted = admissible(trace, config, num_kv_blocks)
    requests = build_requests(trace, accepted, model.frontend_in_s, _int(config, "max_model_len"))
    state = allocate(requests, limits, num_kv_blocks, itl_limit_s)
    jitter = draw_jitter(model.residuals, seed)
    spent = 0.0
    while True:
        started = time.perf_counter()
        status = run_all(state, limits, model.params, jitter)
        spent += time.perf_counter() - started
        if status != LOG_FULL:
            break
        state = grow_logs(state)
    if status == STUCK:
        raise SimulationError(
            "the simulated engine cannot go on: requests wait and nothing runs; "
            f"this is a defect of the simulator, please report it with {config}"
        )
    counts = state.tally.counts
    return Simulation(
        outcomes=gather(trace, accepted, state, model.frontend_out_s),
        num_steps=int(counts[NUM_STEPS]),
        num_preemptions=int(counts[NUM_PREEMPTIONS]),
        simulation_s=spent,
        record=gather_record(accepted, state) if record else None,
    )


def prepare(model: StepTimeModel) -> None:
    """Compile the kernels for the kind of `model`, or load them from the disk cache.

    `simulate` does it by itself; call it before forking workers, or to show the wait of a first
    compile apart.
    """
    kind = model.params.table is None
    if kind in _PREPARED:
        return
    nothing = np.empty(0)
    none = np.empty(0, dtype=np.int64)
    config = EngineConfig(max_num_batched_tokens=1, max_num_seqs=1, block_size=1)
    limits = build_limits(config, 2, False)
    state = allocate(Requests(nothing, none, none, none), limits, 2, np.full(1, np.nan))
    run_all(state, limits, model.params, np.ones(1))
    _PREPARED.add(kind)


_PREPARED: set[bool] = set()
"""kinds of latency model (without a table: True) whose kernels are loaded"""


def _int(config: EngineConfig, name: str) -> int:
    value = getattr(config, name)
    if value is None:
        raise KnobError(f"{name} must be resolved before a simulation; give it a value")
    return int(value)


def build_limits(config: EngineConfig, num_kv_blocks: int, record: bool) -> Limits:
    """The settings the rules read. Raises `KnobError` when one is missing or not simulated."""
    config.check()
    if config.scheduling_policy == "priority":
        raise KnobError("scheduling_policy=priority is not simulated yet; use fcfs")
    batched, seqs = _int(config, "max_num_batched_tokens"), _int(config, "max_num_seqs")
    budget = min(batched, config.max_num_scheduled_tokens or batched)
    active = config.max_num_active_seqs or seqs
    threshold = config.long_prefill_token_threshold or 0
    adaptive = bool(config.long_prefill_token_threshold_adaptive)
    return Limits(
        token_budget=budget,
        adaptive_budget=batched,
        max_active=active,
        threshold=threshold,
        adaptive=adaptive,
        chunked=config.enable_chunked_prefill is not False,
        reserve_full=config.scheduler_reserve_full_isl is not False,
        watermark_blocks=int((config.watermark or 0.0) * num_kv_blocks),
        block_size=_int(config, "block_size"),
        overlapped=bool(config.async_scheduling),
        may_starve=budget < active or (threshold > 0 and adaptive and budget < batched),
        recording=record,
    )


def admissible(trace: Trace, config: EngineConfig, num_kv_blocks: int) -> npt.NDArray[np.bool_]:
    """(N,) False for requests the engine refuses or could never finish.

    vLLM's front end refuses a prompt that leaves no room for one output token; a sequence that
    needs more blocks than the pool has would wait or preempt itself for ever.
    """
    length, block = _int(config, "max_model_len"), _int(config, "block_size")
    total = np.minimum(trace.prompt_tokens + trace.output_tokens, length)
    blocks = -(-(total - 1) // block)
    fits: npt.NDArray[np.bool_] = (trace.prompt_tokens < length) & (blocks <= num_kv_blocks - 1)
    if config.enable_chunked_prefill is False:
        fits &= trace.prompt_tokens <= _int(config, "max_num_batched_tokens")
    return fits


def build_requests(
    trace: Trace, accepted: npt.NDArray[np.bool_], frontend_in_s: float, max_model_len: int
) -> Requests:
    """The accepted requests as the kernel wants them."""
    prompt = trace.prompt_tokens[accepted].astype(np.int64)
    output = trace.output_tokens[accepted].astype(np.int64)
    klass = trace.request_class
    return Requests(
        visible_s=trace.arrival_s[accepted].astype(np.float64) + frontend_in_s,
        prompt_tokens=prompt,
        max_output=np.minimum(output, max_model_len - prompt),
        klass=np.zeros_like(prompt) if klass is None else klass[accepted].astype(np.int64),
    )


def draw_jitter(residuals: FloatArray, seed: int | None) -> FloatArray:
    """(NUM_JITTER,) factors drawn from the latency model's residuals, mean about 1."""
    if seed is None or residuals.size == 0:
        return np.ones(1)
    return np.random.default_rng(seed).choice(residuals, NUM_JITTER).astype(np.float64)


def gather(
    trace: Trace, accepted: npt.NDArray[np.bool_], state: State, frontend_out_s: float
) -> Outcomes:
    """Outcomes of all requests of `trace`, the rejected ones included."""
    n, progress = trace.arrival_s.size, state.progress
    first, finish = np.full(n, np.nan), np.full(n, np.nan)
    first[accepted] = progress.first_token_s + frontend_out_s
    finish[accepted] = progress.finish_s + frontend_out_s
    output, slow = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    output[accepted] = state.requests.max_output
    slow[accepted] = progress.num_slow
    gaps, classes = int(state.tally.counts[NUM_GAPS]), state.tally.decodes.size
    return Outcomes(
        arrival_s=trace.arrival_s,
        first_token_s=first,
        finish_s=finish,
        prompt_tokens=trace.prompt_tokens,
        output_tokens=output,
        status=np.where(accepted, Status.FINISHED, Status.REJECTED).astype(np.int64),
        request_class=trace.classes,
        num_slow_gaps=slow,
        itl_limit_s=state.tally.itl_limit_s,
        gap_s=state.log.gap_s[:gaps].copy(),
        gap_weight=state.log.weight[: gaps * classes].reshape(gaps, classes).copy(),
    )


def gather_record(accepted: npt.NDArray[np.bool_], state: State) -> StepRecord:
    """The step record with request numbers of the trace."""
    rows, record = int(state.tally.counts[NUM_ROWS]), state.record
    original = np.flatnonzero(accepted)
    return StepRecord(
        step=record.step[:rows].copy(),
        request=original[record.request[:rows]],
        tokens=record.tokens[:rows].copy(),
        before=record.before[:rows].copy(),
        free=record.free[:rows].copy(),
    )
