"""What a step in flight forbids: blocks that it may still write to are not freed, and the output of
a preempted request is kept or dropped.

Mirrors defer_block_free and drop_stale_output of `vllm/v1/core/sched/scheduler.py` of vLLM 0.32.
`transfers` is None for an engine without a KV connector.
"""

from __future__ import annotations

import numpy as np

from profiler.compiled import inner
from tuner.simulator.state import (
    DECODING,
    LAST_END,
    NONE,
    NUM_FINISHED,
    NUM_LATE,
    NUM_STEPS,
    PART_HEAD,
    PREFILLING,
    SCHEDULE_AT,
    State,
)
from tuner.simulator.transfer_arrays import (
    WAS_LATE,
    Transfers,
)


@inner
def defers_frees(transfers: Transfers | None) -> bool:
    """Whether blocks of a request in flight cannot be freed (defer_block_free)."""
    return False if transfers is None else transfers.rules.defers


@inner
def keeps_output(transfers: Transfers | None, state: State, r: int) -> bool:
    """Whether the preempted `r`, whose only token is in flight, keeps it and ends; a producer drops
    it (drop_stale_output), because `r` has no KV to hand over any more."""
    if transfers is None:
        return True
    if not transfers.rules.drops_output:
        return True
    progress = state.progress
    progress.outputs[r] = 0
    progress.first_token_s[r], progress.finish_s[r] = np.nan, np.nan
    state.tally.counts[NUM_FINISHED] -= 1
    return False


@inner
def was_late(transfers: Transfers | None) -> bool:
    """Whether a decode waits that the last step left out because of a fence."""
    return False if transfers is None else transfers.counts[WAS_LATE] == 1


@inner
def is_fenced(transfers: Transfers, state: State, r: int) -> bool:
    """Whether the step in flight may still write to the blocks of the running `r`."""
    times = state.tally.times
    if not transfers.rules.defers or times[LAST_END] <= times[SCHEDULE_AT]:
        return False
    phase = state.progress.phase[r]
    if phase == DECODING:
        return bool(np.isnan(state.progress.last_token_s[r]))
    if phase == PREFILLING:
        return transfers.moves.fed_step[r] == state.tally.counts[NUM_STEPS] - 1
    return True


@inner
def note_step(transfers: Transfers, state: State, start: float, end: float) -> None:
    """The step being built runs from `start` to `end`: remember who gets a chunk, and whether a
    decode is left out."""
    counts, first_kv_s = state.tally.counts, transfers.moves.first_kv_s
    first_layer_s = start + (end - start) / transfers.rules.overlap_layers
    transfers.counts[WAS_LATE] = 1 if counts[NUM_LATE] > 0 else 0
    r = counts[PART_HEAD]
    while r != NONE:
        if state.progress.chunk[r] > 0:
            transfers.moves.fed_step[r] = counts[NUM_STEPS]
            if np.isnan(first_kv_s[r]):
                first_kv_s[r] = first_layer_s
        r = state.links.kind_next[r]


@inner
def note_empty_step(transfers: Transfers, state: State) -> None:
    """The step being built is empty."""
    if state.tally.counts[NUM_LATE] > 0:
        transfers.counts[WAS_LATE] = 1
