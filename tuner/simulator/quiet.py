"""Pure decode steps in one go: nothing is scheduled between them, so nothing is looked at."""

from __future__ import annotations

import numpy as np

from profiler.compiled import inner
from profiler.latency.params import StepTimeParams
from profiler.latency.step_time import BatchShape, step_interval
from profiler.steps import AFTER_DECODES
from tuner.simulator.gaps import log_pooled_gap
from tuner.simulator.record import add_step
from tuner.simulator.state import (
    BLOCKED,
    CLOCK,
    DECODE_CONTEXT,
    FREE_BLOCKS,
    LAST_END,
    NONE,
    NUM_DECODES,
    NUM_GAPS,
    NUM_RUNNING,
    NUM_STEPS,
    QUIET,
    SCHEDULE_AT,
    VISIBLE,
    FloatArray,
    Limits,
    State,
)
from tuner.simulator.tables import grow_crossing
from tuner.simulator.transfers import next_transfer_s, until_s


@inner
def run_quiet(state: State, limits: Limits, params: StepTimeParams, jitter: FloatArray) -> None:
    """Run pure decode steps until anything else can happen: an arrival that may be admitted, a
    decode's last step, a shortage of blocks, the end of a transfer, or the recorded window. Where
    it stops only because other engines must come first, it goes on in the next call."""
    counts, times, crossing = state.tally.counts, state.tally.times, state.tally.crossing
    ring, visible_s = state.tally.ring, state.requests.visible_s
    closed = counts[BLOCKED] == 1 and not limits.adaptive  # whose cap falls with every arrival
    open_door = not closed and counts[VISIBLE] < visible_s.size
    next_s = visible_s[counts[VISIBLE]] if open_door else np.inf
    if times[SCHEDULE_AT] < limits.record_until_s:
        next_s = min(next_s, limits.record_from_s)
    next_s = min(next_s, next_transfer_s(state.transfers), until_s(state.transfers))
    decodes, running = counts[NUM_DECODES], counts[NUM_RUNNING]
    room = state.log.gap_s.size - 1 - running
    if limits.timeline:  # a gap for every step here
        room = min(room, counts[NUM_GAPS] + state.steps.end_s.size - counts[NUM_STEPS])
    phase, slot = counts[CLOCK] % crossing.size, counts[CLOCK] % ring.size
    while next_s > times[SCHEDULE_AT] and ring[slot] == NONE and counts[NUM_GAPS] < room:
        if crossing[phase] > counts[FREE_BLOCKS]:
            break
        if not limits.identities:
            counts[FREE_BLOCKS] -= crossing[phase]
        elif crossing[phase] > 0:
            grow_crossing(state, limits)
        batch = BatchShape(0, 0, 0.0, 0, decodes, counts[DECODE_CONTEXT], AFTER_DECODES, 0)
        seconds = step_interval(params, batch, running, limits.overlapped)
        start = times[LAST_END]
        end = start + seconds * jitter[counts[NUM_STEPS] % jitter.size]
        if limits.timeline:
            add_step(state, batch, start, end)
        log_pooled_gap(state, end)
        times[LAST_END] = end
        times[SCHEDULE_AT] = start if limits.overlapped else end
        counts[CLOCK] += 1
        counts[DECODE_CONTEXT] += decodes
        counts[NUM_STEPS] += 1
        phase = phase + 1 if phase + 1 < crossing.size else 0
        slot = slot + 1 if slot + 1 < ring.size else 0
    counts[QUIET] = 1 if times[SCHEDULE_AT] >= until_s(state.transfers) else 0
