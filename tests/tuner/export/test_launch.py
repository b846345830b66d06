"""`--launch`: a fake engine stands for vLLM; a real one does the same once."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from profiler.engine_config import EngineConfig
from profiler.engines.base import EngineSpec
from profiler.engines.fake import FakeEngine
from profiler.errors import ExportError
from profiler.traffic.synthetic import like
from profiler.traffic.trace import Trace
from tests.tuner.conftest import SLO
from tests.tuner.export.fleets import disaggregated
from tuner.export.bundle import launch_plan
from tuner.export.from_results import deployment_of, picked
from tuner.export.launch import LaunchPlan, engine_spec, launch
from tuner.results import Results, RunFolder

MODEL = Path(__file__).parents[3] / "studies/models/tiny-llama"


def plan_of(results: Results, **changes: Any) -> LaunchPlan:
    trace = like("azure-conv-2023", duration_s=4.0, rate_rps=3.0, seed=1).cap(200, 8)
    plan = LaunchPlan(deployment_of(results), picked(results), trace, SLO)
    return replace(plan, **changes)


def as_read(words: list[str]) -> dict[str, Any]:
    """Stands for vLLM's parser: what is not by default, an object as None."""
    assert words[0] == "/models/a model"
    return {
        "model": words[0],
        "enforce_eager": True,
        "enable_prefix_caching": False,
        "max_model_len": 4096,
        "max_num_batched_tokens": 512,
        "scheduler_reserve_full_isl": False,
        "load_format": "dummy",
        "dtype": "float32",
    }


class Stage:
    """Starts fake engines, and keeps what they were asked for."""

    def __init__(self, **wrong: Any) -> None:
        self.specs: list[EngineSpec] = []
        self._wrong = wrong

    def __call__(self, spec: EngineSpec) -> FakeEngine:
        self.specs.append(spec)
        config = replace(spec.config, **self._wrong)
        return FakeEngine(EngineSpec("fake", "none", config))


def test_the_engine_is_what_the_command_says(results: Results) -> None:
    spec = engine_spec(plan_of(results), as_read)
    assert spec.model == "/models/a model"
    assert (spec.load_format, spec.dtype) == ("dummy", "float32")
    assert spec.engine_args == {"enforce_eager": True}
    assert spec.environment == {"VLLM_CPU_KVCACHE_SPACE": "1"}
    assert spec.config == EngineConfig(
        max_num_batched_tokens=512,
        max_model_len=4096,
        scheduler_reserve_full_isl=False,
        enable_prefix_caching=False,
    )


def test_a_launch_compares_every_setting_and_replays(results: Results) -> None:
    stage = Stage()
    files = launch(plan_of(results), start=stage, parse=as_read)
    assert len(stage.specs) == 1
    result = json.loads(files["launch.json"])
    assert result["all_settings_as_exported"] is True
    by_name = {s["setting"]: s for s in result["settings"]}
    assert by_name["max_num_batched_tokens"]["found"] == 512
    assert by_name["scheduler_reserve_full_isl"] == {
        "setting": "scheduler_reserve_full_isl",
        "exported": False,
        "expected": False,
        "found": False,
        "same": True,
    }
    assert result["replay"]["requests"] == plan_of(results).trace.num_requests
    assert result["replay"]["figures"]["num_finished"] == result["replay"]["requests"]
    assert "settings read back, as exported" in files["LAUNCH.md"]


def test_a_setting_that_the_engine_does_not_keep_is_named(results: Results) -> None:
    files = launch(plan_of(results), start=Stage(max_num_batched_tokens=1024), parse=as_read)
    assert json.loads(files["launch.json"])["all_settings_as_exported"] is False
    assert "NOT all as exported" in files["LAUNCH.md"]
    line = "- max_num_batched_tokens: exported 512, in the run 512, here 1024"
    assert line in files["LAUNCH.md"]


def test_a_run_is_launched_with_its_own_traffic(finished_run: Path) -> None:
    folder = RunFolder(finished_run)
    plan = launch_plan(folder, "recommended", 5.0)
    assert 0 < plan.trace.num_requests < Trace.load(folder.trace).num_requests
    assert plan.trace.duration_s <= 5.0
    assert plan.slo.limits[0].itl_p99_s == folder.load_results().slo["default"]["itl_p99_s"]
    files = launch(plan, start=Stage(), parse=lambda words: {"model": words[0]})
    assert json.loads(files["launch.json"])["all_settings_as_exported"] is True


def test_a_fleet_is_not_launched_on_one_machine(results: Results) -> None:
    with pytest.raises(ExportError, match="got 2 pools"):
        launch(plan_of(results, deployment=disaggregated()), start=Stage(), parse=as_read)


@pytest.mark.engine
def test_a_real_vllm_is_launched_as_exported(results: Results) -> None:
    pytest.importorskip("vllm")
    settings = {
        "max_model_len": 1024,
        "max_num_batched_tokens": 256,
        "max_num_seqs": 16,
        "long_prefill_token_threshold": 128,
        "scheduler_reserve_full_isl": False,
        "enable_prefix_caching": False,
    }
    chosen = replace(results.recommended, settings=settings, resolved=settings)
    engine = results.engine | {
        "model": str(MODEL),
        "args": {"enforce_eager": True},
        "environment": {"VLLM_CPU_KVCACHE_SPACE": "1"},
    }
    facts = {"engine": "vllm", "version": "0.32.0", "device": "cpu"}
    run = replace(
        results,
        recommended=chosen,
        engine=engine,
        provenance=results.provenance | {"engine": facts},
    )
    files = launch(plan_of(run))
    result = json.loads(files["launch.json"])
    assert result["all_settings_as_exported"] is True
    found = {s["setting"]: s["found"] for s in result["settings"]}
    assert {name: found[name] for name in settings} == settings
    assert result["engine"]["version"].startswith("0.32")
    assert result["replay"]["figures"]["num_finished"] == result["replay"]["requests"] > 0
