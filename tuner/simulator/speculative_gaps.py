"""Token gaps with drafts: every request has its own, and tokens accepted together are 0 s apart."""

from __future__ import annotations

import numpy as np

from profiler.compiled import inner
from tuner.simulator.drafts import Drafts
from tuner.simulator.gaps import keep_longest
from tuner.simulator.state import NUM_GAPS, State


@inner
def log_tokens(state: State, r: int, end: float, first_gap: int) -> None:
    """`r` has a token at `end`: its first, or one after a gap. Equal gaps of a step share an entry
    of the log where the first one of the step is the same."""
    tally, log, progress = state.tally, state.log, state.progress
    klass, classes = state.requests.klass[r], tally.decodes.size
    before = progress.last_token_s[r]
    gap = end - before
    progress.last_token_s[r] = end
    if np.isnan(gap):
        progress.first_token_s[r] = end
        return
    keep_longest(tally, r, before, end)
    i = tally.counts[NUM_GAPS]
    if i > first_gap and log.gap_s[first_gap] == gap:
        i = first_gap
    else:
        add_gap(state, gap)
    log.weight[i * classes + klass] += 1
    if gap > tally.itl_limit_s[klass]:
        progress.num_slow[r] += 1


@inner
def add_gap(state: State, gap: float) -> None:
    """A further entry of the log, of nobody yet."""
    log, i, classes = state.log, state.tally.counts[NUM_GAPS], state.tally.decodes.size
    log.gap_s[i] = gap
    for c in range(classes):
        log.weight[i * classes + c] = 0
    state.tally.counts[NUM_GAPS] = i + 1


@inner
def log_extra(state: State, drafts: Drafts) -> None:
    """Tokens that appear together with another one have a gap of 0 s."""
    classes, total = drafts.extra.size, 0
    for c in range(classes):
        total += drafts.extra[c]
    if total == 0:
        return
    i = state.tally.counts[NUM_GAPS]
    add_gap(state, 0.0)
    for c in range(classes):
        state.log.weight[i * classes + c] = drafts.extra[c]
        drafts.extra[c] = 0
