"""The parts of the rehearsal that need no vLLM: pace, batch shapes, lateness, specification."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from profiler.engine_config import EngineConfig
from profiler.engines import start_engine
from profiler.engines.base import EngineSpec
from profiler.engines.record_file import RecordWriter
from profiler.engines.rehearsal.batch import Batches, ScheduledStep
from profiler.engines.rehearsal.late_file import LateReader
from profiler.engines.rehearsal.pace import Pace
from profiler.engines.rehearsal.spec import MODEL_KEY, rehearsed_spec
from profiler.engines.step_file import HEADER, StepRecords, step_samples
from profiler.engines.vllm import spec as vllm_spec
from profiler.errors import KnobError, LatencyModelError
from profiler.latency.base import EXAMPLES, load_latency_model
from profiler.latency.region import columns_of
from profiler.outcomes import LateSteps
from profiler.steps import AFTER_IDLE

MODEL = Path(__file__).parents[3] / "studies/models/tiny-llama"


class Clock:
    """A clock whose sleeps take `overshoot_s` longer than asked for."""

    def __init__(self, overshoot_s: float = 0.0) -> None:
        self.now_s, self.overshoot_s = 100.0, overshoot_s

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds + self.overshoot_s


def test_host_work_goes_on_inside_the_step_and_overshoot_does_not_add_up() -> None:
    clock = Clock(overshoot_s=1e-4)
    pace = Pace(clock, clock.sleep)
    for _ in range(100):
        end_s = pace.begin(0.010)
        clock.now_s += 0.003  # output handling and scheduling before vLLM asks for the tokens
        assert pace.finish(end_s, 0.010) == 0.0
    assert clock.now_s == pytest.approx(100.0 + 100 * 0.010 + 1e-4)


def test_a_step_after_an_idle_engine_starts_when_it_comes() -> None:
    clock = Clock()
    pace = Pace(clock, clock.sleep)
    pace.finish(pace.begin(0.010), 0.010)
    pace.idle()
    clock.now_s = 105.0
    assert pace.begin(0.020) == pytest.approx(105.020)


def test_a_late_step_is_counted_and_moves_what_follows() -> None:
    clock = Clock()
    pace = Pace(clock, clock.sleep)
    end_s = pace.begin(0.010)
    clock.now_s += 0.014
    assert pace.finish(end_s, 0.010) == pytest.approx(0.004)
    assert pace.finish(pace.begin(0.010), 0.010) == 0.0
    assert clock.now_s == pytest.approx(100.024)  # the next one took its full time
    end_s = pace.begin(0.100)
    clock.now_s += 0.105
    assert pace.finish(end_s, 0.100) == 0.0  # 5 ms in 100 are within a tenth
    pace.idle()
    clock.now_s = 200.0
    end_s = pace.begin(0.010)
    pace.finish(end_s, 0.010)
    assert clock.now_s == pytest.approx(200.010)  # what was lost before is not lost again


def test_a_step_in_flight_starts_when_the_one_before_ends() -> None:
    """Asynchronous scheduling: the next step is handed over while one runs."""
    clock = Clock()
    pace = Pace(clock, clock.sleep)
    first_s = pace.begin(0.010)
    second_s = pace.begin(0.005)
    pace.idle()  # nothing more to schedule while these two are in flight
    pace.finish(first_s, 0.010)
    third_s = pace.begin(0.010)
    for end_s, interval_s in ((second_s, 0.005), (third_s, 0.010)):
        assert pace.finish(end_s, interval_s) == 0.0
    assert clock.now_s == pytest.approx(100.025)


def test_lateness_is_summed_up_per_replay(tmp_path: Path) -> None:
    path = tmp_path / "late.f64"
    reader = LateReader(path)
    assert reader.take() == LateSteps(0, 0, 0.0, 0.0)
    writer = RecordWriter(path)
    for interval_s, late_s in ((0.010, 0.0), (0.020, 0.005), (0.010, 0.003)):
        writer.write(interval_s, late_s)
    seen = reader.take()
    assert (seen.num_steps, seen.num_late) == (3, 2)
    assert seen.late_share == pytest.approx(2 / 3)
    assert seen.mean_late_s == pytest.approx(0.004)
    assert seen.slowdown == pytest.approx(0.2)
    assert reader.take() == LateSteps(0, 0, 0.0, 0.0)


class Request:
    """One request of the made-up scheduler below."""

    def __init__(self, name: str, prompt: int, output: int) -> None:
        self.name, self.prompt, self.output = name, prompt, output
        self.computed = self.produced = 0
        self.sent = False


def scheduled(
    step: list[tuple[Request, int]], finished: list[str], preempted: list[str]
) -> SimpleNamespace:
    """What vLLM's scheduler would hand to the worker."""
    new = [
        SimpleNamespace(
            req_id=r.name,
            prompt_token_ids=[0] * r.prompt,
            prefill_token_ids=None,
            num_computed_tokens=r.computed,
        )
        for r, _ in step
        if not r.sent
    ]
    old = [r for r, _ in step if r.sent]
    return SimpleNamespace(
        scheduled_new_reqs=new,
        scheduled_cached_reqs=SimpleNamespace(
            req_ids=[r.name for r in old],
            num_computed_tokens=[r.computed for r in old],
            num_output_tokens=[r.produced for r in old],
        ),
        num_scheduled_tokens={r.name: n for r, n in step},
        finished_req_ids=set(finished),
        preempted_req_ids=set(preempted),
    )


def test_batch_shapes_equal_those_of_the_recorded_steps() -> None:
    """Random chunks, decodes, preemptions; the table of the recorder is the twin."""
    rng = np.random.default_rng(3)
    batches, taken, headers, entries = Batches(), [], [], []
    live: list[Request] = []
    finished: list[str] = []
    for number in range(400):
        if number % 3 == 0:
            live.append(Request(f"r{number}", int(rng.integers(1, 60)), int(rng.integers(1, 9))))
        victims = [r for r in live if r.computed and rng.random() < 0.03]
        for r in victims:
            r.computed = 0
        candidates = [r for r in live if r not in victims]
        step = [
            (r, min(int(rng.integers(1, 40)), r.prompt + r.produced - r.computed))
            for r in candidates
            if rng.random() < 0.8
        ]
        found = batches.take(scheduled(step, finished, [r.name for r in victims]))
        finished = []
        if not step:
            assert found is None
            continue
        assert found is not None
        gives = [r.computed + n == r.prompt + r.produced for r, n in step]
        assert found.gives_token == gives
        assert found.request_ids == [r.name for r, _ in step]
        assert found.num_running == sum(r.computed > 0 or r in dict(step) for r in live)
        idle = np.nan if found.batch.follows == AFTER_IDLE else 1.0
        headers.append([len(step), *[0.0] * (HEADER - 1)])
        headers[-1][4] = idle
        for (r, n), emits in zip(step, gives, strict=True):
            entries.append([0, n, r.computed, r.computed < r.prompt or n > 1])
            r.computed += n
            r.produced += emits
            r.sent = True
        taken.append(found.batch)
        finished = [r.name for r in live if r.produced == r.output]
        live = [r for r in live if r.produced < r.output]
    expected = columns_of(step_samples(StepRecords(np.array(headers), np.array(entries, float))))
    assert np.array_equal(np.array(taken)[:, :-1], np.stack(expected, axis=1))
    assert not np.array(taken)[:, -1].any()  # no images


def test_an_empty_schedule_means_idle() -> None:
    batches = Batches()
    assert batches.take(scheduled([], [], [])) is None
    request = Request("a", 10, 3)
    first = batches.take(scheduled([(request, 10)], [], []))
    assert isinstance(first, ScheduledStep) and first.batch.follows == AFTER_IDLE
    request.computed, request.sent, request.produced = 10, True, 1
    second = batches.take(scheduled([(request, 1)], [], []))
    assert second is not None and second.batch.follows != AFTER_IDLE
    assert second.batch.decode_context == 10
    assert batches.take(scheduled([], ["a"], [])) is None


def spec(**arguments: object) -> EngineSpec:
    return EngineSpec("rehearsal", str(MODEL), engine_args=dict(arguments))


def test_a_bare_latency_model_gets_a_large_gpus_defaults() -> None:
    given = replace(spec(latency_model="example-8b", tensor_parallel_size=4, seed=5))
    config = EngineConfig(num_gpu_blocks_override=1000, max_num_batched_tokens=512)
    made = rehearsed_spec(replace(given, config=config))
    assert made.config.settings() == {
        "max_num_batched_tokens": 512,
        "max_num_seqs": 512,  # vLLM's 1024, but no more than the budget
        "block_size": 16,
        "async_scheduling": True,
        "num_gpu_blocks_override": 1000,
    }
    assert made.engine_args["additional_config"][MODEL_KEY] == str(EXAMPLES / "example-8b.json")
    assert made.engine_args["seed"] == 5
    assert "tensor_parallel_size" not in made.engine_args
    assert made.environment["NUMBA_DISABLE_JIT"] == "1"


def test_a_profile_gives_the_devices_blocks_and_defaults(tmp_path: Path) -> None:
    load_latency_model("example-8b").save(tmp_path / "step_time.json")
    resolved = {"max_num_batched_tokens": 4096, "max_num_scheduled_tokens": 4096, "block_size": 32}
    facts = {"num_kv_blocks": 777, "resolved": resolved | {"async_scheduling": False}}
    (tmp_path / "facts.json").write_text(json.dumps({"schema_version": 1, "facts": facts}))
    made = rehearsed_spec(
        replace(spec(latency_model=str(tmp_path)), config=EngineConfig(block_size=64))
    )
    assert made.config.num_gpu_blocks_override == 777
    assert made.config.max_num_batched_tokens == 4096
    assert made.config.max_num_scheduled_tokens is None  # follows the budget of each candidate
    assert made.config.async_scheduling is False
    assert made.config.block_size == 64
    facts["kv_blocks_by_budget"] = [[1024, 900], [2048, 800], [4096, 777]]
    (tmp_path / "facts.json").write_text(json.dumps({"schema_version": 1, "facts": facts}))
    for budget, blocks in ((512, 900), (2048, 800), (3072, 788), (None, 777)):
        config = EngineConfig(max_num_batched_tokens=budget)
        made = rehearsed_spec(replace(spec(latency_model=str(tmp_path)), config=config))
        assert made.config.num_gpu_blocks_override == blocks


def test_what_is_refused_before_starting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_spec, "find_spec", lambda name: object())
    with pytest.raises(KnobError, match=r"needs a latency model; give engine\.args\.latency_model"):
        start_engine(spec())
    with pytest.raises(LatencyModelError, match=r"no latency model 'absent\.json'"):
        start_engine(spec(latency_model="absent.json"))
    with pytest.raises(KnobError, match="how many KV blocks the GPU of example-8b has"):
        start_engine(spec(latency_model="example-8b"))
    (tmp_path / "step_time.json").write_text("{}")
    damaged = spec(latency_model=str(tmp_path))
    with pytest.raises(LatencyModelError, match="no latency model can be read"):
        start_engine(replace(damaged, config=EngineConfig(num_gpu_blocks_override=9)))


def test_the_workers_latency_model_is_free_of_numba() -> None:
    """vLLM's CPU worker fails on numba; see `test_vllm_parts`."""
    code = (
        "import sys, profiler.engines.rehearsal.batch, profiler.latency.base as b; "
        "from profiler.latency.step_time import BatchShape, step_interval; "
        "m = b.load_latency_model('example-8b'); "
        "print(repr(float(step_interval(m.params, BatchShape(9, 1, 45., 0, 3, 900, 0), 4, False))))"
        "; sys.exit('numba' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"NUMBA_DISABLE_JIT": "1", "PATH": "", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(done.stdout) > 0.004
