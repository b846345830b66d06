"""A real prefill and a real decode vLLM, one core each, with KV moved by NIXL."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from profiler.engine_config import EngineConfig
from profiler.engines.base import EngineSpec, Requests
from profiler.engines.deployment.answers import (
    greedy_answer,
    prefill_only,
    prompt_tokens_by_source,
)
from profiler.engines.deployment.deployment import Deployment
from profiler.engines.deployment.one_core import one_core_pair
from profiler.engines.seeded_model import write_seeded_model
from profiler.engines.vllm.session import session_members
from profiler.engines.wire import take_reads, wire_reader

pytestmark = pytest.mark.engine

SHAPE = Path(__file__).parents[4] / "studies/models/tiny-llama"
BLOCK, BUDGET = 32, 256
CONFIG = EngineConfig(
    block_size=BLOCK,
    max_num_batched_tokens=BUDGET,
    max_num_seqs=16,
    max_model_len=2048,
    enable_prefix_caching=False,
)
NUM_TOKENS = 12
KV_BYTES_PER_TOKEN = 2 * 4 * 4 * 32 * 4
"""keys and values, 4 layers of 4 heads of 32 elements of 4 bytes"""
LENGTHS = (7, BLOCK - 1, BLOCK, BLOCK + 1, 100, BUDGET, BUDGET + 1, 3 * BUDGET + 5)


class Pair:
    """The started pair, and what it takes to look at it."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        prefill, decode = deployment.servers.values()
        self.prefill, self.decode = (f"http://127.0.0.1:{s.port}" for s in (prefill, decode))
        self.reads = wire_reader(decode.steps_file)
        rng = np.random.default_rng(7)
        self.prompts = [rng.integers(3, 4096, length).tolist() for length in LENGTHS]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("a pair needs two cores")
    folder = tmp_path_factory.mktemp("pair")
    model = write_seeded_model(SHAPE, folder / "model")
    spec = EngineSpec("vllm", str(model), CONFIG, dtype="float32", start_timeout_s=240.0)
    with Deployment(one_core_pair(spec, (cores[0], cores[1]))) as deployment:
        yield Pair(deployment)


def test_split_and_aggregated_answers_are_the_same(pair: Pair) -> None:
    """The decode server alone, which computes the prompts itself, is the aggregated one here."""
    alone = [greedy_answer(pair.decode, prompt, NUM_TOKENS) for prompt in pair.prompts]
    before = prompt_tokens_by_source(pair.decode)
    split = [greedy_answer(pair.deployment.url, p, NUM_TOKENS) for p in pair.prompts]
    after = prompt_tokens_by_source(pair.decode)
    assert split == alone
    assert all(len(answer) == NUM_TOKENS for answer in alone)
    moved = {name: after[name] - before[name] for name in after}
    assert moved["external_kv_transfer"] == sum(LENGTHS)
    assert moved["local_compute"] == moved["local_cache_hit"] == 0


def test_transfers_are_recorded(pair: Pair) -> None:
    prompts = np.array([LENGTHS[-1], LENGTHS[0]])
    take_reads(pair.reads)
    pair.deployment.replay(Requests(np.zeros(2), prompts, np.full(2, 4)))
    moved = pair.deployment.handovers
    assert (moved.held_s < moved.started_s).all()
    assert (moved.started_s < moved.loaded_s).all()
    assert (moved.held_s < moved.released_s).all()
    reads = take_reads(pair.reads)
    blocks = sum(-(-length // BLOCK) for length in prompts.tolist())
    assert reads.size_bytes.sum() == blocks * BLOCK * KV_BYTES_PER_TOKEN
    assert (reads.seconds > 0).all() and (reads.post_s <= reads.seconds).all()


def test_another_prompts_kv_is_noticed(pair: Pair) -> None:
    """Nothing fails when KV goes to the wrong request; only the answer gives it away."""
    prompt, other = pair.prompts[-1], pair.prompts[-1][::-1]
    right = greedy_answer(pair.decode, prompt, NUM_TOKENS)
    own, foreign = prefill_only(pair.prefill, prompt), prefill_only(pair.prefill, other)
    assert greedy_answer(pair.decode, prompt, NUM_TOKENS, transfer=own) == right
    assert greedy_answer(pair.decode, prompt, NUM_TOKENS, transfer=foreign) != right


def test_blocks_in_the_wrong_order_are_noticed(pair: Pair) -> None:
    prompt = pair.prompts[-1]
    right = greedy_answer(pair.decode, prompt, NUM_TOKENS)
    mixed = prefill_only(pair.prefill, prompt)
    mixed["remote_block_ids"] = [blocks[::-1] for blocks in mixed["remote_block_ids"]]
    assert greedy_answer(pair.decode, prompt, NUM_TOKENS, transfer=mixed) != right


def test_engines_stay_on_their_cores_and_idle(pair: Pair) -> None:
    """vLLM's own connector moves both engines to the last core, and burns one per idle engine."""
    cores = sorted(os.sched_getaffinity(0))
    servers = list(pair.deployment.servers.values())
    for server, core in zip(servers, cores[:2], strict=True):
        for member in session_members(server.session):
            for thread in member.threads():
                assert os.sched_getaffinity(thread.id) == {core}
    members = [m for server in servers for m in session_members(server.session)]

    def used_s() -> float:
        return sum(sum(m.cpu_times()[:2]) for m in members)

    before_s, began_s = used_s(), time.monotonic()
    time.sleep(1.0)
    assert used_s() - before_s < 0.5 * (time.monotonic() - began_s)


def test_requests_fail_when_the_decode_server_is_killed(pair: Pair) -> None:
    """In a replay with transfers under way; the last test here, for it leaves a broken pair."""
    count = 24
    requests = Requests(
        arrival_s=np.linspace(0.0, 1.2, count),
        prompt_tokens=np.full(count, 900),
        output_tokens=np.full(count, 40),
    )
    decode = pair.deployment.servers["decode 0"]

    def kill_half_way(done: int, total: int) -> None:
        if done >= 2 and decode.is_alive:
            for member in session_members(decode.session):
                os.kill(member.pid, signal.SIGKILL)

    times = pair.deployment.replay(requests, progress=kill_half_way)
    assert times.failed.any() and not times.failed.all()
    assert times.failed.size == count
    assert pair.deployment.dead() == ["decode 0"]
