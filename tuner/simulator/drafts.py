"""State of a simulation with speculative decoding, beside `State`; and three plain readings of it.

With drafts the decodes do not move in lockstep, so nothing of them is aggregated: CLOCK stays 0,
`Progress.computed` is the number of computed tokens in every phase, optimistic ones included (the
engine counts drafts as computed until they are rejected), and blocks always have identities.
Phases: PREFILLING until the step that computes the last known token has been scheduled, then
DECODING; FINISHING is a preempted request whose last token is in flight.
"""

from __future__ import annotations

from typing import NamedTuple

from profiler.compiled import inner
from tuner.simulator.state import FloatArray, IntArray, Limits, State

# Indices of Drafts.step.
TOKENS_LEFT = 0  # of the step's token budget
INPUTS_LEFT = 1  # of max_num_batched_tokens, which draft slots count against too
NUM_RAN = 2  # running requests in the step
NUM_CHUNKS = 3  # of them, those with a part of the prompt to compute
NUM_STEP = 4

# Indices of Drafts.totals.
DRAFTED = 0  # draft tokens verified, padding included
ACCEPTED = 1  # of them, accepted ones
NUM_TOTALS = 2

NO_TOKEN = -1
"""`Drafts.accepted` of a chunk that does not end its prompt"""


class Drafts(NamedTuple):
    """Acceptance of drafts, and the steps in flight. N requests, A of them running, C classes."""

    draws: FloatArray
    """(M,) uniform random numbers in [0, 1)"""
    start: IntArray
    """(N,) where the request's draws start in `draws`"""
    survival: FloatArray
    """(R * num_drafts,) chance that draft i and all before it are accepted, row after row"""
    row: IntArray
    """(N,) row of `survival`"""
    verified: IntArray
    """(N,) verifications so far"""
    coming: IntArray
    """(N,) tokens that the request's last scheduled step yields"""
    step: IntArray
    """(NUM_STEP,) the step being built, see the indices above"""
    totals: IntArray
    """(NUM_TOTALS,) see the indices above"""
    sizes: IntArray
    """(2,) requests of the step in flight, by step number mod 2; 0 once its output is seen"""
    ends: FloatArray
    """(2,) seconds, when the output of that step appears"""
    request: IntArray
    """(2 * A,) requests of the steps in flight, in the engine's order"""
    drafted: IntArray
    """(2 * A,) their drafts"""
    accepted: IntArray
    """(2 * A,) how many of those are accepted, or NO_TOKEN"""
    extra: IntArray
    """(C,) tokens that appear together with another one"""


@inner
def known_tokens(state: State, r: int) -> int:
    """Tokens of `r` that the scheduler knows (Request.num_tokens)."""
    return state.requests.prompt_tokens[r] + state.progress.outputs[r]


@inner
def tokens_in_flight(state: State, r: int) -> int:
    """Output tokens, drafts included, that the decode `r` may get from the step in flight
    (num_output_placeholders): it has computed all known tokens but the last, and these."""
    return state.progress.computed[r] - known_tokens(state, r) + 1


@inner
def count_accepted(drafts: Drafts, limits: Limits, r: int, num: int) -> int:
    """Accepted ones of `num` drafts in the next verification of `r`."""
    u = drafts.draws[(drafts.start[r] + drafts.verified[r]) % drafts.draws.size]
    at = drafts.row[r] * limits.num_drafts
    accepted = 0
    while accepted < num and u < drafts.survival[at + accepted]:
        accepted += 1
    return accepted
