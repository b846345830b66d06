"""A pool of replicas, and what its engines are built from."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from profiler.engine_config import EngineConfig
from profiler.errors import SimulationError
from profiler.latency.base import StepTimeModel
from profiler.traffic.trace import Trace
from tuner.simulator.build import admissible, build_limits, build_requests, resolved
from tuner.simulator.log_room import MAX_LOGGED
from tuner.simulator.memory import Inputs, allocate, as_records, ints
from tuner.simulator.pool_arrays import Prefixes
from tuner.simulator.prefix_keys import build_prefixes, prefix_blocks
from tuner.simulator.state import FloatArray, Limits, Log, Requests, State
from tuner.simulator.transfer_arrays import Rules
from tuner.simulator.transfer_build import Script, allocate_engine, build_transfers, role_rules

BoolArray = npt.NDArray[np.bool_]

AGGREGATED = "aggregated"
PREFILL = "prefill"
DECODE = "decode"


@dataclass(frozen=True)
class Pool:
    """Replicas of one kind."""

    config: EngineConfig
    """fully resolved settings"""
    model: StepTimeModel
    num_kv_blocks: int
    """of one replica, the null block included"""
    num_replicas: int = 1
    num_gpus: int = 1
    """of one replica"""
    kv_role: str = "kv_both"
    """vLLM's, for prefill and decode replicas: kv_producer, kv_consumer or kv_both (what its NIXL
    examples use on both sides)"""
    kv_load_failure_policy: str = "fail"
    """vLLM's, for decode replicas: "fail" the request, or "recompute" its prompt"""


@dataclass(frozen=True)
class Link:
    """What KV is moved over, into each decode replica."""

    latency_s: float
    """from the last byte to the report; above 0"""
    bytes_per_s: float
    shared: bool = True
    """concurrent loads of a decode replica share the bandwidth equally; else each has all of it"""
    overlap_layers: int = 1
    """layer-wise transfer: layers of the model, whose KV leaves one by one while the prompt is
    computed (`link.bytes_after_prefill`); 1: everything leaves after the prefill, as with vLLM's
    connectors"""


class Side(NamedTuple):
    """A pool, and what it is in its fleet."""

    pool: Pool
    role: str
    """AGGREGATED, PREFILL or DECODE"""


class Wires(NamedTuple):
    """What ties prefill and decode replicas to each other."""

    link: Link
    hop_s: float
    """from a prefill's token to the request's arrival at a decode replica"""
    kv_bytes_per_token: float


class BuiltPool(NamedTuple):
    """A pool and the requests that it may get."""

    side: Side
    limits: Limits
    rules: Rules
    requests: Requests
    """(K,) as its replicas see them; of those it refuses nothing is read"""
    prefixes: Prefixes
    """(K,)"""


def accepts(trace: Trace, side: Side) -> BoolArray:
    """(N,) the requests that the pool takes."""
    pool = side.pool
    return admissible(asked_of(trace, side), pool.config, pool.num_kv_blocks)


def asked_of(trace: Trace, side: Side) -> Trace:
    """What the pool is asked for: a prefill replica for one token."""
    if side.role != PREFILL:
        return trace
    return dataclasses.replace(trace, output_tokens=np.ones_like(trace.output_tokens))


def build_pool(
    trace: Trace, accepted: BoolArray, side: Side, wires: Wires | None, identities: bool
) -> BuiltPool:
    """The pool, and the `accepted` requests of `trace` as it sees them."""
    limits = pool_limits(trace, side.pool, identities)
    length = resolved(side.pool.config, "max_model_len")
    in_any_order = limits._replace(priority=False)
    requests = build_requests(asked_of(trace, side), accepted, in_any_order, 0.0, length)
    np.maximum(requests.max_output, 1, out=requests.max_output)
    prefixes = build_prefixes(trace, accepted, requests, limits)
    return BuiltPool(side, limits, pool_rules(side, limits, wires), requests, prefixes)


def pool_limits(trace: Trace, pool: Pool, identities: bool) -> Limits:
    """The rules' settings for the replicas of a pool. Blocks have identities where prefixes are
    shared, or where `identities` says so."""
    limits = build_limits(pool.config, pool.num_kv_blocks, trace.prefix_block_tokens or 1)
    if limits.num_drafts:
        raise SimulationError(
            "fleets are simulated without speculative decoding; set num_speculative_tokens to 0"
        )
    alike = identities or bool(prefix_blocks(trace).shared.any())
    return limits._replace(identities=limits.caching and alike)


def pool_rules(side: Side, limits: Limits, wires: Wires | None) -> Rules:
    """The connector's rules; for an aggregated pool those of an engine without one."""
    pool = side.pool
    if side.role == AGGREGATED or wires is None:
        return role_rules("kv_consumer", "fail", False)
    rules = role_rules(pool.kv_role, pool.kv_load_failure_policy, limits.overlapped)
    link = wires.link
    rules = rules._replace(overlap_layers=int(link.overlap_layers))
    if side.role == PREFILL:
        return rules._replace(lookahead_s=float(wires.hop_s + link.latency_s))
    return rules._replace(
        shared=bool(link.shared),
        latency_s=float(link.latency_s),  # a whole number would be compiled for anew
        bytes_per_s=float(link.bytes_per_s),
        block_bytes=float(wires.kv_bytes_per_token * limits.block_size),
    )


def empty_replica(
    built: BuiltPool, takes: BoolArray, num_slots: int, itl_limit_s: FloatArray
) -> State:
    """A replica that has been sent nothing, with `num_slots` >= 2 slots for any requests that it
    takes. Its log has room for more than one step whatever happens in it."""
    role, limits, n = built.side.role, built.limits, num_slots
    requests = Requests(np.full(n, np.inf), ints(n), ints(n), ints(n), ints(n))
    if takes.any():  # the first slots hold the largest ones until a request comes
        total = np.where(takes, built.requests.prompt_tokens + built.requests.max_output, -1)
        output = np.where(takes, built.requests.max_output, -1)
        for slot, q in enumerate((int(total.argmax()), int(output.argmax()))):
            requests.prompt_tokens[slot] = built.requests.prompt_tokens[q]
            requests.max_output[slot] = built.requests.max_output[q]
    script = Script(
        remote=ints(n, int(role == DECODE)),
        hands_over=ints(n, int(role == PREFILL)),
        fails=ints(n),
        duration_s=np.full(n, np.inf if role == PREFILL else 0.0),
    )
    held = n if limits.identities else 0
    prefixes = Prefixes(built.prefixes.ids, *(ints(held) for _ in range(4)))
    inputs = Inputs(as_records(requests), prefixes, None, build_transfers(script, built.rules))
    make = allocate if role == AGGREGATED else allocate_engine
    state = make(inputs, limits, built.side.pool.num_kv_blocks, itl_limit_s)
    room = MAX_LOGGED + limits.max_active + n + 1024
    return state._replace(log=Log(np.empty(room), np.empty(room * itl_limit_s.size, np.int64)))
