"""Prefill and decode pools: each engine against its slow twin, given what the others did."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt
import pytest
from transfer_reference import TransferReference

from profiler.engine_config import EngineConfig
from profiler.errors import SimulationError
from profiler.outcomes import Status
from profiler.traffic.trace import Trace
from tuner.simulator import Fleet, FleetSimulation, Link, Pool, simulate_fleet
from tuner.simulator.difftest.cases import random_case
from tuner.simulator.difftest.compare import MODEL
from tuner.simulator.difftest.shrink import take_requests
from tuner.simulator.difftest.transfer_cases import Move, TransferCase, run_transfer_other
from tuner.simulator.state import FloatArray

KV_BYTES = 1000.0
HOP_S = MODEL.frontend_out_s + MODEL.frontend_in_s


@dataclasses.dataclass(frozen=True)
class Drawn:
    trace: Trace
    prefill: Pool
    decode: Pool
    link: Link
    fails: npt.NDArray[np.bool_]


def draw(seed: int, replicas: tuple[int, int] = (1, 1)) -> Drawn:
    """Traffic of one random case, settings of two."""
    case, other = random_case(seed, speculative=False), random_case(seed + 5000, speculative=False)
    rng = np.random.default_rng(seed)
    block = other.config.block_size or 1
    longest = int((case.trace.prompt_tokens + case.trace.output_tokens).max())
    prefill = Pool(case.config, MODEL, case.num_kv_blocks, replicas[0])
    decode = Pool(
        dataclasses.replace(other.config, max_model_len=4096),
        MODEL,
        1 + -(-longest // block) + int(rng.integers(0, 12)),
        replicas[1],
        kv_role="kv_consumer",
        kv_load_failure_policy=str(rng.choice(["fail", "recompute"])),
    )
    if other.config.enable_chunked_prefill is False:
        decode = dataclasses.replace(decode, config=case.config)
        decode = dataclasses.replace(decode, num_kv_blocks=case.num_kv_blocks)
    link = Link(float(rng.choice([1e-4, 1e-2])), float(rng.choice([1e5, 1e7])), bool(seed % 2))
    fails = rng.random(case.trace.num_requests) < rng.choice([0.0, 0.3])
    return Drawn(case.trace, prefill, decode, link, fails)


def exact_difference(end_s: FloatArray, start_s: FloatArray) -> FloatArray:
    """What added to `start_s` gives `end_s` to the last bit, so that ties stay ties."""
    difference = end_s - start_s
    for _ in range(4):
        difference = np.where(
            start_s + difference < end_s, np.nextafter(difference, np.inf), difference
        )
        difference = np.where(
            start_s + difference > end_s, np.nextafter(difference, -np.inf), difference
        )
    return difference


def run(drawn: Drawn) -> FleetSimulation:
    fleet = Fleet((), drawn.prefill, drawn.decode, drawn.link, KV_BYTES)
    return simulate_fleet(drawn.trace, fleet, fails=drawn.fails)


def run_unless_endless(drawn: Drawn) -> FleetSimulation:
    result = run(drawn)
    if result.endless:
        pytest.skip("one of the engines would hang")
    return result


@pytest.mark.parametrize("seed", range(100))
def test_both_engines_do_what_their_twins_do(seed: int) -> None:
    """Given when its transfers ended, the twin of each engine makes the same tokens at the same
    times. An effect always comes after its cause, so only one history is consistent with both."""
    drawn = draw(seed)
    result = run_unless_endless(drawn)
    out = result.outcomes
    assert (out.status != Status.REJECTED).all()
    wait_s = exact_difference(result.load_end_s, result.prefill_s)
    first = dataclasses.replace(drawn.trace, output_tokens=np.ones_like(drawn.trace.output_tokens))
    moves = tuple(Move(False, True, False, float(w)) for w in wait_s)
    prefill = TransferCase(
        drawn.prefill.config, first, drawn.prefill.num_kv_blocks, None, moves=moves
    )
    _, jobs = run_transfer_other(prefill, TransferReference, 10**6)
    np.testing.assert_allclose(result.prefill_s, [j.token_s[0] for j in jobs], rtol=1e-9)

    order = np.lexsort((np.arange(out.num_requests), result.prefill_s))
    trace = take_requests(drawn.trace, order)
    sent_s = exact_difference(result.prefill_s + HOP_S, np.float64(MODEL.frontend_in_s))
    trace = dataclasses.replace(trace, arrival_s=sent_s[order])
    load_s = exact_difference(result.load_end_s, result.load_start_s)[order]
    failing = drawn.fails[order]
    decode = TransferCase(
        drawn.decode.config,
        trace,
        drawn.decode.num_kv_blocks,
        None,
        role="kv_consumer",
        policy=drawn.decode.kv_load_failure_policy,
        moves=tuple(
            Move(True, False, bool(f), float(s)) for f, s in zip(failing, load_s, strict=True)
        ),
    )
    _, jobs = run_transfer_other(decode, TransferReference, 10**6)
    for job, request in zip(jobs, order, strict=True):
        if out.status[request] == Status.FAILED:
            assert not job.token_s
            continue
        assert out.status[request] == Status.FINISHED
        shown = (out.first_token_s[request], out.finish_s[request])
        expected = np.array([job.token_s[0], job.token_s[-1]]) + MODEL.frontend_out_s
        np.testing.assert_allclose(shown, expected, rtol=1e-7)


def shared_ends(starts: FloatArray, sizes: FloatArray, rate: float) -> FloatArray:
    """When transfers end that share a link equally, by looking at every change."""
    left, ends, now = sizes.astype(float), np.full(sizes.size, np.nan), 0.0
    while np.isnan(ends).any():
        on = (starts <= now) & np.isnan(ends)
        coming = starts[starts > now].min(initial=np.inf)
        if not on.any():
            now = coming
            continue
        step = min(coming - now, left[on].min() * on.sum() / rate)
        left[on] -= step * rate / on.sum()
        now = coming if step == coming - now else now + step
        ends[on & (left <= 1e-6)] = now
    return ends


@pytest.mark.parametrize("seed", range(20))
def test_loads_share_the_link(seed: int) -> None:
    drawn = draw(seed)
    result = run_unless_endless(drawn)
    block = drawn.decode.config.block_size or 1
    blocks = np.ceil(drawn.trace.prompt_tokens / block) - (
        (drawn.trace.prompt_tokens - result.loaded_tokens) / block
    )
    sizes = blocks * block * KV_BYTES
    if drawn.link.shared:
        ends = shared_ends(result.load_start_s, sizes, drawn.link.bytes_per_s)
    else:
        ends = result.load_start_s + sizes / drawn.link.bytes_per_s
    np.testing.assert_allclose(result.load_end_s, ends + drawn.link.latency_s, rtol=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_several_replicas_take_turns(seed: int) -> None:
    drawn = draw(seed, (1 + seed % 3, 1 + seed // 3 % 3))
    result = run_unless_endless(drawn)
    for pool in (result.prefill, result.decode):
        numbers = [use.num_requests for use in pool]
        assert sum(numbers) == drawn.trace.num_requests
        assert max(numbers) - min(numbers) <= 1
    out = result.outcomes
    assert set(out.status) <= {Status.FINISHED, Status.FAILED}
    assert (result.prefill_s > out.arrival_s).all()
    assert (result.load_start_s >= result.prefill_s + HOP_S).all()
    done = out.status == Status.FINISHED
    assert (out.first_token_s > result.load_end_s)[done].all()
    assert (out.finish_s >= out.first_token_s)[done].all()
    gaps = np.maximum(out.output_tokens - 1, 0)[done].sum()
    assert out.gap_weight.sum() == gaps


def test_another_prefill_replica_never_makes_the_decode_replica_go_back() -> None:
    """Arrivals at every decode replica are in order of time."""
    result = run(draw(7, (3, 1)))
    order = np.argsort(result.prefill_s, kind="stable")
    assert (np.diff(result.load_start_s[order]) >= 0).all()


def test_what_a_pool_refuses_is_rejected() -> None:
    drawn = draw(3)
    long = dataclasses.replace(drawn.trace, prompt_tokens=drawn.trace.prompt_tokens.copy())
    long.prompt_tokens[0] = 5000
    long = dataclasses.replace(
        long, prefix_hashes=None, prefix_offsets=None, prefix_block_tokens=None
    )
    result = run(dataclasses.replace(drawn, trace=long))
    assert result.outcomes.status[0] == Status.REJECTED
    assert np.isnan(result.prefill_s[0])
    assert np.isfinite(result.prefill_s[1:]).all()


def test_a_link_without_latency_is_refused() -> None:
    drawn = draw(0)
    with pytest.raises(SimulationError, match=r"latency of a link must be above 0 s, got 0\.0"):
        run(dataclasses.replace(drawn, link=Link(0.0, 1e6)))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("seed", [5, 15, 22, 30, 34, 52])
def test_a_shared_link_counts_to_the_end_whatever_is_rounded(seed: int) -> None:
    """Late in a run a double does not hold the time that the rest of a load takes."""
    config = EngineConfig(
        max_num_batched_tokens=512, max_num_seqs=64, max_model_len=1024, block_size=16
    )
    rng = np.random.default_rng(seed)
    late_s = float(rng.choice([600.0, 3600.0, 1e6, 3.6e7]))
    burst = late_s + np.cumsum(rng.exponential(rng.choice([1e-3, 0.02]), 40))
    drawn = Drawn(
        Trace(np.concatenate([[0.0], burst]), rng.integers(20, 900, 41), rng.integers(1, 20, 41)),
        Pool(config, MODEL, 4000),
        Pool(config, MODEL, 4000, kv_role="kv_consumer"),
        Link(1e-6, float(rng.choice([1e5, 1e6, 1.23e7, 3e9])), True),
        np.zeros(41, np.bool_),
    )
    assert (run(drawn).outcomes.status == Status.FINISHED).all()
