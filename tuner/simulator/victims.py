"""Preemption by recomputation: who loses the blocks, and what becomes of him.

Mirrors the victim choice in `Scheduler.schedule` and `Scheduler._preempt_request` of vLLM 0.32;
the choice holds for >=0.12 by reading.
"""

from __future__ import annotations

from profiler.compiled import inner
from tuner.simulator.blocks import computed_tokens, free_blocks
from tuner.simulator.encoder_release import free_viewer
from tuner.simulator.fences import keeps_output
from tuner.simulator.lists import remove_partial, remove_running
from tuner.simulator.lockstep import leave_lockstep
from tuner.simulator.record import add_row
from tuner.simulator.state import (
    CLOCK,
    DECODING,
    DONE,
    FINISHING,
    FRUITLESS,
    NONE,
    NUM_PREEMPTIONS,
    PREEMPTED,
    RECORDING,
    RUN_HEAD,
    RUN_TAIL,
    WAITING,
    Limits,
    State,
)
from tuner.simulator.tables import hash_full_blocks, publish_private
from tuner.simulator.waiting import push_waiting


@inner
def pick_victim(state: State, limits: Limits) -> int:
    """The last running request; under priorities the first of the least urgent ones."""
    counts, urgency = state.tally.counts, state.requests.urgency
    if not limits.priority:
        return counts[RUN_TAIL]
    worst = counts[RUN_HEAD]
    r = worst
    while r != NONE:
        if urgency[r] > urgency[worst]:
            worst = r
        r = state.links.order_next[r]
    return worst


@inner
def preempt(state: State, limits: Limits, r: int, scheduled: int) -> None:
    """Preempt `r`, which has `scheduled` tokens in the step being built.

    Its outputs are kept. A request whose last token is in flight is dropped instead of queued:
    that token finishes it before the queue is looked at again; unless it is lost, because a
    producer must not finish without the KV that it hands over.
    """
    counts, progress = state.tally.counts, state.progress
    if counts[RECORDING] == 1:
        add_row(state, r, PREEMPTED, 0)
    remove_running(state, r)
    computed = computed_tokens(state, r)
    if limits.identities:
        hash_full_blocks(state, limits, r, computed - 1 if limits.overlapped else computed)
        publish_private(state, limits, r)
    free_blocks(state, limits, r, computed + scheduled)
    free_viewer(state.vision, r, scheduled)
    counts[NUM_PREEMPTIONS] += 1
    counts[FRUITLESS] += 1
    if progress.phase[r] == FINISHING:
        if keeps_output(state.transfers, state, r):
            progress.phase[r] = DONE
            return
    elif progress.phase[r] == DECODING:
        leave_lockstep(state, limits, r)
        progress.outputs[r] = state.requests.max_output[r] - (
            progress.end_clock[r] - counts[CLOCK] + 1
        )
    else:
        remove_partial(state, r)
    progress.phase[r], progress.computed[r], progress.chunk[r] = WAITING, 0, 0
    push_waiting(state, limits, r)
