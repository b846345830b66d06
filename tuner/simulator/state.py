"""The simulator's state: NamedTuples of 1-D arrays, one per noun.

Columns over the same items are handed to the kernels as one array of records, which reads and
writes like its NamedTuple (`memory.as_records`). Everything is allocated in `memory.py` and
written in place by the kernels. Integers are int64, reals float64, flags bool_. "Not yet" is NaN
for a time and -1 (`NONE`) for an index. N is the number of requests, C of request classes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tuner.simulator.image_arrays import Vision
from tuner.simulator.pool_arrays import Pool, Prefixes
from tuner.simulator.step_arrays import Record, Steps
from tuner.simulator.transfer_arrays import Transfers

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

NONE = -1

# Phases of a request.
WAITING = 0  # never admitted, or preempted
PREFILLING = 1  # running, a part of its known tokens is not computed yet
DECODING = 2  # running, one token per step
FINISHING = 3  # running, its last token is computed by the step in flight
DONE = 4

# Status of a kernel call.
ALL_DONE = 0
LOG_FULL = 1  # give the log more room and call again
STUCK = 2  # nothing runs, nothing can be admitted, nothing arrives (before `UNTIL`)
BLOCKS_MATTER = 3  # a preempted request may hit its own blocks: run again with identities
ENDLESS = 4  # the engine preempts the same requests for ever
PAUSED = 5  # the next schedule() call must wait for other engines

# Indices of Tally.counts.
NUM_RUNNING = 0  # PREFILLING + DECODING + FINISHING
NUM_DECODES = 1  # DECODING
DECODE_CONTEXT = 2  # sum of computed tokens over DECODING
CLOCK = 3  # number of steps in which the DECODING requests moved in lockstep
FREE_BLOCKS = 4
RUN_HEAD = 5  # running list, in order of admission
RUN_TAIL = 6
PART_HEAD = 7  # partial prefills, in order of admission
PART_TAIL = 8
STACK_HEAD = 9  # preempted requests: the front of the waiting queue (first-come order)
NUM_STACKED = 10  # preempted requests; under priorities all that wait
NEXT = 11  # first request that was never admitted
VISIBLE = 12  # first request that has not reached the scheduler yet
ENDING_NOW = 13  # list of requests that the step being built finishes
ENDING_BEFORE = 14  # the same of the step in flight (asynchronous only)
NUM_STEPS = 15
NUM_GAPS = 16
NUM_PREEMPTIONS = 17
NUM_FINISHED = 18
QUIET = 19  # 1 when the last step had no chunk, no preemption and no finish
BLOCKED = 20  # 1 when a waiting request was refused by the last admission pass
NUM_LATE = 21  # decodes that got no token in this step
LATE_CONTEXT = 22  # sum of their computed tokens
NUM_ROWS = 23  # rows of the step record
FREE_HEAD = 24  # free queue of KV blocks with identities
FREE_TAIL = 25
NUM_FREE_ROWS = 26  # unused block tables
NEXT_TICKET = 27  # running number of the next admission
CACHED_TOKENS = 28  # prompt tokens found in the prefix cache at first admissions
FRUITLESS = 29  # preemptions since anybody got a token
FOLLOWS = 30  # what ran last, as BatchShape.follows has it
RECORDING = 31  # 1 while the step being built goes into the record
WORST_OWN = 32  # request with the longest own gap (after a preemption or lateness)
NUM_SENT = 33  # requests sent so far, in a closed loop
NUM_COUNTS = 34

# Record.tokens of rows that are no scheduled tokens.
PREEMPTED = -1
RUNS = -2  # running when the step's output has been seen
WAITS = -3  # waiting then
HOLDS = -5  # waiting with KV blocks then (kv_holding_waiting)
ENCODES = -4  # the encoder computes `Record.before` tokens of its images

# Indices of Tally.times.
SCHEDULE_AT = 0  # when the next schedule() happens
LAST_END = 1  # when the last busy step's output appears
WORST_OWN_START = 2  # the longest own gap so far is from here
WORST_OWN_END = 3  # to here
NUM_TIMES = 4


class Limits(NamedTuple):
    """The settings that the rules read; built from a resolved `EngineConfig`."""

    token_budget: int
    """tokens per step: min(max_num_batched_tokens, max_num_scheduled_tokens)"""
    adaptive_budget: int
    """max_num_batched_tokens, which the adaptive threshold divides"""
    max_active: int
    """running requests at admission"""
    threshold: int
    """long-prefill cap, tokens; 0 = off"""
    adaptive: bool
    chunked: bool
    reserve_full: bool
    """admission needs blocks for the whole known sequence"""
    watermark_blocks: int
    block_size: int
    overlapped: bool
    """asynchronous scheduling: two steps in flight"""
    may_starve: bool
    """a decode can be left without its token, so the running pass visits every request"""
    record_from_s: float
    """steps scheduled from here on are recorded"""
    record_until_s: float
    """and no more from here on"""
    record_queues: bool
    """record the queues after each step too"""
    timeline: bool
    """keep one row for every step"""
    priority: bool
    """waiting and victims by (priority, arrival), not first come first served"""
    caching: bool
    """the engine reuses KV blocks of equal prefixes"""
    identities: bool
    """blocks have identities; otherwise they are only counted"""
    prefix_tokens: int
    """prompt tokens per prefix hash of the trace"""
    prefix_span: int
    """most KV blocks that end in one prefix block"""
    closed_loop: bool
    """a client sends its next request when the one before is answered"""
    turnaround_s: float
    """closed loop: from a request's last token to the next one being visible, seconds"""
    images: bool
    """the traffic has images"""
    whole_images: bool
    """no chunk ends inside an image that it reached from before (disable_chunked_mm_input)"""
    encoder_budget: int
    """image tokens that the encoder computes in a step"""
    num_drafts: int
    """draft tokens verified per decode and step; 0 = no speculation"""
    lookahead: int
    """tokens beyond the scheduled ones that a request gets KV slots for"""
    draft_slots: int
    """what every scheduled request costs of max_num_batched_tokens on top of its tokens"""
    drops_hit: bool
    """a prefix hit loses its last block"""
    reads_ahead: int
    """prompt tokens beyond a chunk whose images must be encoded with it"""
    max_model_len: int


class Requests(NamedTuple):
    """Inputs; a kernel writes nothing but `visible_s`, and that in a closed loop only."""

    visible_s: FloatArray
    """(N,) when the scheduler can see the request, seconds; sorted. In a closed loop infinite
    until it is sent; written by `commit.send_next`"""
    prompt_tokens: IntArray
    """(N,)"""
    max_output: IntArray
    """(N,) tokens after which it stops (the recorded output, cut by the model length)"""
    klass: IntArray
    """(N,) request class, 0 .. C-1"""
    urgency: IntArray
    """(N,) rank by (priority, arrival), equal for equals; 0 in first-come order"""


class Progress(NamedTuple):
    """Per request; written by the rules in `scheduler.py`, `blocks.py` and `starved.py`."""

    phase: IntArray
    """(N,) see the phases above"""
    computed: IntArray
    """(N,) PREFILLING: tokens computed. DECODING: tokens computed minus CLOCK"""
    outputs: IntArray
    """(N,) tokens produced; while DECODING, as of joining"""
    chunk: IntArray
    """(N,) PREFILLING: tokens of this step; where requests are visited one by one, also DECODING"""
    end_clock: IntArray
    """(N,) DECODING: value of CLOCK at its last step"""
    slow_at_join: IntArray
    """(N,) DECODING: Tally.slow of its class when it joined"""
    num_slow: IntArray
    """(N,) gaps longer than the class's ITL limit"""
    last_token_s: FloatArray
    """(N,) preempted or late: when its last token appeared; NaN otherwise"""
    admitted_s: FloatArray
    """(N,) the schedule() call that admitted it first"""
    first_token_s: FloatArray
    """(N,)"""
    finish_s: FloatArray
    """(N,)"""


class Links(NamedTuple):
    """Doubly linked lists over requests."""

    order_prev: IntArray
    """(N,) running list"""
    order_next: IntArray
    """(N,) running list; of a preempted request in first-come order, the stack"""
    kind_prev: IntArray
    """(N,) list of its phase: partial prefills, or decodes that end at the same clock"""
    kind_next: IntArray
    """(N,) the same; of a FINISHING request, the list of the step that finishes it"""
    ticket: IntArray
    """(N,) running number of the admission: the running list is in this order"""


class Tally(NamedTuple):
    """Aggregates."""

    counts: IntArray
    """(NUM_COUNTS,) see the indices above"""
    times: FloatArray
    """(NUM_TIMES,) seconds"""
    crossing: IntArray
    """(block_size,) decodes that need a new block at clock c, at c mod block_size"""
    decodes: IntArray
    """(C,) DECODING requests of each class"""
    slow: IntArray
    """(C,) pooled gaps so far that were longer than the class's limit"""
    late: IntArray
    """(C,) decodes of each class outside this step's pooled gap"""
    itl_limit_s: FloatArray
    """(C,) NaN for none; never written"""
    heap: IntArray
    """(N,) waiting requests as a heap, under priorities; else empty"""
    ring: IntArray
    """(R,) first decode that ends at clock c, at c mod R; R exceeds every output length"""


class Log(NamedTuple):
    """Token gaps, in order of time."""

    gap_s: FloatArray
    """(room,) seconds"""
    weight: IntArray
    """(room * C,) requests of each class that had the gap"""


class Bins(NamedTuple):
    """Token gaps by size; B bins. Written by `gaps.add_to_bins`."""

    sum_s: FloatArray
    """(B,) seconds of all gaps in the bin"""
    weight: IntArray
    """(B * C,) requests of each class that had them"""


class State(NamedTuple):
    """All of it."""

    requests: Requests
    progress: Progress
    links: Links
    tally: Tally
    log: Log
    steps: Steps
    record: Record
    prefixes: Prefixes
    pool: Pool
    vision: Vision | None
    """None for text, for which the kernels are compiled without images"""
    transfers: Transfers | None = None
    """None for an engine without a KV connector, for which the kernels are compiled without it"""
