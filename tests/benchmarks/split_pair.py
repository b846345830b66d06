"""What `test_split_pair.py` does before it replays: the deployments, the profile, the link."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from profiler.collect import profile
from profiler.collect.sentinel import REPEATS, read_sentinel
from profiler.engine_config import EngineConfig
from profiler.engines.base import EngineSpec, Requests
from profiler.engines.deployment.answers import greedy_answer, prompt_tokens_by_source
from profiler.engines.deployment.deployment import Deployment
from profiler.engines.deployment.one_core import one_core_pair, one_core_replicas
from profiler.engines.seeded_model import write_seeded_model
from profiler.kv_link.fit import fit_link
from profiler.latency.base import StepTimeModel
from profiler.model_spec import read_model_spec
from profiler.traffic.synthetic import like
from profiler.traffic.trace import Trace
from tuner.simulator.fleet import Fleet
from tuner.simulator.pool_build import Link, Pool

RATE_RPS = float(os.environ.get("PAIR_RPS", "3"))
SECONDS = float(os.environ.get("PAIR_SECONDS", "60"))
ROUNDS = int(os.environ.get("PAIR_ROUNDS", "4"))
PROFILE_S = float(os.environ.get("PAIR_PROFILE_S", "90"))
SHAPE = Path(__file__).parents[2] / "studies/models/tiny-llama"
LONGEST_PROMPT, LONGEST_OUTPUT = 1500, 48
BLOCK, BUDGET = 32, 512
CONFIG = EngineConfig(
    block_size=BLOCK,
    max_num_batched_tokens=BUDGET,
    max_num_seqs=32,
    max_model_len=2048,
    enable_prefix_caching=False,
)
LENGTHS = (5, 17, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK - 1, 2 * BLOCK, 100, 200, 333, BUDGET - 1)
LENGTHS += (BUDGET, BUDGET + 1, 700, 2 * BUDGET - 1, 2 * BUDGET, 2 * BUDGET + 1, 1300, 1500, 1900)
"""prompts compared token by token; the longer ones come in up to four chunks"""
ANSWER_TOKENS = 24
LINK_PROMPTS = (32, 64, 128, 256, 512, 1024, 2000)
LINK_REPEATS = 9


@dataclass
class Scene:
    """Both deployments, alive side by side, and what is known of them."""

    split: Deployment
    aggregated: Deployment
    model: StepTimeModel
    """of one server on one core, with its HTTP front end on the same core"""


def traffic() -> Trace:
    """Like the Azure conversation trace, cut to what one core computes in time."""
    trace = like("azure-conv-2023", duration_s=SECONDS, rate_rps=RATE_RPS, seed=5)
    return trace.cap(LONGEST_PROMPT, LONGEST_OUTPUT)


def engine_spec(folder: Path) -> EngineSpec:
    """A 5 M parameter Llama with seeded weights; float32, because in the 16 bits that vLLM would
    choose a chunk's size decides ties between tokens."""
    model = write_seeded_model(SHAPE, folder / "seeded-llama")
    return EngineSpec("vllm", str(model), CONFIG, dtype="float32", start_timeout_s=300.0)


def two_cores() -> tuple[int, int]:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("a pair needs two cores")
    return cores[0], cores[1]


def profile_one(spec: EngineSpec, core: int, trace: Trace) -> StepTimeModel:
    """Steps of one aggregated server on one core, over HTTP."""
    with Deployment(one_core_replicas(spec, [core])) as deployment:
        made = profile(deployment, trace, budget_s=PROFILE_S, seed=0)
    for row in made.report.rows:
        if row.size == "all":
            print(f"held out, {row.region}: {row.median:.1%} median, {row.p95:.1%} p95")
    return made.model


def speed_of(deployment: Deployment, model: StepTimeModel) -> float:
    """How fast the machine is now, 1 for the speed that `model` was profiled at: predicted against
    measured device time of the sentinel's steps, on each server of an idle deployment."""
    ratios = []
    for _ in range(REPEATS * len(deployment.servers)):
        _, steps = read_sentinel(deployment)
        ratios.append(model.device_s(steps).sum() / steps.exec_s.sum())
    return float(np.median(ratios))


def measured_link(split: Deployment, bytes_per_token: int) -> Link:
    """Latency and bandwidth of loads as the idle decode server sees them, one at a time."""
    sizes, seconds = [], []
    for length in LINK_PROMPTS:
        took = []
        for _ in range(LINK_REPEATS):
            split.replay(Requests(np.zeros(1), np.array([length]), np.ones(1, np.int64)))
            took.append(float(split.handovers.loaded_s[0] - split.handovers.started_s[0]))
        sizes.append(float(-(-length // BLOCK) * BLOCK * bytes_per_token))
        seconds.append(float(np.median(took)))
    latency_s, bytes_per_s = fit_link(np.array(sizes), np.array(seconds))
    loads = zip(sizes, seconds, strict=True)
    print(
        f"link: {1e3 * latency_s:.2f} ms + bytes / {bytes_per_s / 1e9:.2f} GB/s; loads of "
        + ", ".join(f"{size / 2**20:.2g} MiB {1e3 * s:.1f} ms" for size, s in loads)
    )
    return Link(latency_s, bytes_per_s)


def fleets(scene: Scene, spec: EngineSpec) -> dict[str, tuple[Deployment, Fleet]]:
    """What is replayed on, and what it is predicted as."""
    bytes_per_token = read_model_spec(Path(spec.model)).kv_bytes_per_token
    facts = scene.aggregated.facts
    pool = Pool(facts.resolved, scene.model, facts.num_kv_blocks)
    split = Fleet(
        prefill=replace(pool, kv_role="kv_producer"),
        decode=replace(pool, kv_role="kv_consumer"),
        link=measured_link(scene.split, bytes_per_token),
        kv_bytes_per_token=float(bytes_per_token),
    )
    whole = Fleet((replace(pool, num_replicas=2),))
    return {"1P:1D": (scene.split, split), "2 aggregated": (scene.aggregated, whole)}


def compare_answers(scene: Scene) -> tuple[int, dict[str, int]]:
    """How many greedy answers are the same on both, token by token, and by source the prompt
    tokens of the decode server meanwhile."""
    rng = np.random.default_rng(17)
    vocab = int(scene.split.facts.model_shape["vocab_size"])
    prompts = [rng.integers(3, vocab, length).tolist() for length in LENGTHS]
    decode = f"http://127.0.0.1:{scene.split.servers['decode 0'].port}"
    before = prompt_tokens_by_source(decode)
    split, whole = (
        [greedy_answer(d.url, prompt, ANSWER_TOKENS) for prompt in prompts]
        for d in (scene.split, scene.aggregated)
    )
    after = prompt_tokens_by_source(decode)
    same = sum(a == b for a, b in zip(split, whole, strict=True))
    return same, {name: after[name] - before[name] for name in after}


def start(spec: EngineSpec, model: StepTimeModel) -> Scene:
    """Both deployments; the caller stops them."""
    cores = two_cores()
    split = Deployment(one_core_pair(spec, cores))
    try:
        return Scene(split, Deployment(one_core_replicas(spec, cores)), model)
    except BaseException:
        split.stop()
        raise
