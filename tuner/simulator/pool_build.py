"""From two pools and a trace to replicas."""

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
from tuner.simulator.build import (
    admissible,
    build_limits,
    build_requests,
    draw_jitter,
    resolved,
)
from tuner.simulator.prefix_keys import build_prefixes, prefix_blocks
from tuner.simulator.replica import Columns, PoolData, Replica
from tuner.simulator.state import FloatArray, Limits
from tuner.simulator.transfer_build import Script, role_rules

BoolArray = npt.NDArray[np.bool_]


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
    """vLLM's: kv_producer, kv_consumer or kv_both (what its NIXL examples use on both sides)"""
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


class PoolPlan(NamedTuple):
    """The arguments of `pools.simulate_pools`."""

    trace: Trace
    prefill: Pool
    decode: Pool
    link: Link
    kv_bytes_per_token: float
    itl_limit_s: FloatArray | None
    seed: int | None
    fails: BoolArray | None


class BuiltPlan(NamedTuple):
    """What both pools are built from; K requests that both accept."""

    plan: PoolPlan
    accepted: BoolArray
    """(N,)"""
    itl_limit_s: FloatArray
    hop_s: float
    """from a prefill's token to the request's arrival at a decode replica"""
    prefill_limits: Limits
    decode_limits: Limits
    prefill_columns: Columns
    """of the K requests, visible at their arrival"""
    decode_columns: Columns
    """of the K requests, none of which has arrived; their urgency is by priority alone"""

    @property
    def num_requests(self) -> int:
        return int(self.accepted.sum())


def build_plan(plan: PoolPlan, identities: bool) -> BuiltPlan:
    """Check, and describe the requests to both pools.

    Blocks of a pool have identities where prefixes are shared, or where `identities` says so.
    """
    trace, prefill, decode = plan.trace, plan.prefill, plan.decode
    if trace.images is not None:
        raise SimulationError("pools are simulated for text only; take the images out of the trace")
    if not plan.link.latency_s > 0.0:
        raise SimulationError(
            f"the latency of a link must be above 0 s, got {plan.link.latency_s}; give its real one"
        )
    if plan.link.overlap_layers < 1:
        raise SimulationError(
            f"overlap_layers of a link must be at least 1, got {plan.link.overlap_layers}; give "
            "the model's number of layers, or 1 for no overlap"
        )
    first = dataclasses.replace(trace, output_tokens=np.ones_like(trace.output_tokens))
    accepted = admissible(first, prefill.config, prefill.num_kv_blocks)
    accepted &= admissible(trace, decode.config, decode.num_kv_blocks)
    later = dataclasses.replace(trace, arrival_s=np.full(trace.num_requests, np.inf))
    fails = np.zeros(trace.num_requests, np.bool_) if plan.fails is None else plan.fails
    limits = [pool_limits(trace, pool, identities) for pool in (prefill, decode)]
    k = int(accepted.sum())
    none, all_of = np.zeros(k, np.int64), np.ones(k, np.int64)
    unknown_s, no_s = np.full(k, np.inf), np.zeros(k)
    no_limit = np.full(len(trace.class_names), np.nan)
    here = Script(none, all_of, none, unknown_s)
    there = Script(all_of, none, fails[accepted].astype(np.int64), no_s)
    return BuiltPlan(
        plan,
        accepted,
        no_limit if plan.itl_limit_s is None else plan.itl_limit_s,
        prefill.model.frontend_out_s + decode.model.frontend_in_s,
        limits[0],
        limits[1],
        build_columns(first, accepted, limits[0], prefill, here),
        build_columns(later, accepted, limits[1], decode, there),
    )


def pool_limits(trace: Trace, pool: Pool, identities: bool) -> Limits:
    """The rules' settings for the replicas of a pool."""
    limits = build_limits(pool.config, pool.num_kv_blocks, trace.prefix_block_tokens or 1)
    if limits.num_drafts:
        raise SimulationError(
            "pools are simulated without speculative decoding; set num_speculative_tokens to 0"
        )
    alike = identities or bool(prefix_blocks(trace).shared.any())
    return limits._replace(identities=limits.caching and alike)


def build_columns(
    trace: Trace, accepted: BoolArray, limits: Limits, pool: Pool, script: Script
) -> Columns:
    """The accepted requests as a pool sees them."""
    length = resolved(pool.config, "max_model_len")
    requests = build_requests(trace, accepted, limits, pool.model.frontend_in_s, length)
    return Columns(requests, build_prefixes(trace, accepted, requests, limits), script)


def build_replicas(built: BuiltPlan) -> tuple[list[Replica], list[Replica]]:
    """The replicas of both pools; the prefill replicas have their requests, in turn."""
    plan, k = built.plan, built.num_requests
    prefill, decode = list[Replica](), list[Replica]()
    for i in range(plan.prefill.num_replicas):
        mine = np.arange(i, k, plan.prefill.num_replicas)
        spare = np.append(mine, 0 if k else mine)  # so that the last one is released, not only run
        columns = built.prefill_columns.take(spare)
        columns.requests.visible_s[mine.size :] = np.inf
        data = pool_data(built, plan.prefill, i)
        rules = data.rules._replace(
            lookahead_s=float(built.hop_s + plan.link.latency_s),
            overlap_layers=int(plan.link.overlap_layers),
        )
        replica = Replica(columns, built.prefill_limits, data._replace(rules=rules))
        replica.requests = mine.tolist()
        prefill.append(replica)
    for i in range(plan.decode.num_replicas):
        data = pool_data(built, plan.decode, i)
        rules = data.rules._replace(
            shared=bool(plan.link.shared),
            latency_s=float(plan.link.latency_s),  # a whole number would be compiled for anew
            bytes_per_s=float(plan.link.bytes_per_s),
            block_bytes=float(plan.kv_bytes_per_token * built.decode_limits.block_size),
            overlap_layers=int(plan.link.overlap_layers),
        )
        columns = built.decode_columns.take(np.arange(k))
        decode.append(Replica(columns, built.decode_limits, data._replace(rules=rules)))
    return prefill, decode


def pool_data(built: BuiltPlan, pool: Pool, i: int) -> PoolData:
    """What replica `i` of a pool is built from; each draws jitter of its own."""
    seed = None if built.plan.seed is None else built.plan.seed + i
    return PoolData(
        pool.num_kv_blocks,
        built.itl_limit_s,
        pool.model.params,
        draw_jitter(pool.model.residuals, seed),
        role_rules(pool.kv_role, pool.kv_load_failure_policy, bool(pool.config.async_scheduling)),
    )
