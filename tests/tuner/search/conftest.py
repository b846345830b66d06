"""A small finished run of fleets, for the tests of its search and of its confirmation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from profiler.engines.base import Engine, EngineSpec
from tuner.results import RunFolder
from tuner.search.progress import SilentUi
from tuner.search.tune import TuneOptions, tune
from tuner.study import load_study

FLEET_STUDY = """
name: small-fleet
traffic: {like: azure-conv-2023, rate_rps: 12.0, duration_s: 20, max_prompt_tokens: 1500,
          max_output_tokens: 16, seed: 1}
engine: {name: fake, model: none, config: {max_model_len: 4096}}
profile: {budget_s: 40}
slo: {default: {ttft_p99_s: 2.0, itl_p99_s: 0.06}}
search:
  trials: 9
  windows: 2
  space: {max_num_batched_tokens: {low: 128, high: 2048, log: true}}
validate: {top: 1, seconds: 5, rounds: 2}
fleet:
  gpus: 4
  requests: 100
  routers: [round-robin]
  link: {latency_s: 0.001, bytes_per_s: 1000000000}
"""


def no_engine(spec: EngineSpec) -> Engine:
    raise AssertionError(f"no engine should be started, got {spec}")


def write_fleet_study(path: Path, run: Path, changes: dict[str, dict[str, Any]]) -> Path:
    """The study of fleets, each replica as the profile in the folder of `run` says, with keys of
    its sections changed."""
    plain = yaml.safe_load(FLEET_STUDY)
    plain["profile"] = {"path": str(run / "profile")}
    for section, keys in changes.items():
        plain[section] |= keys
    path.write_text(yaml.safe_dump(plain))
    return path


def tuned(study: Path, folder: RunFolder) -> RunFolder:
    """`folder` with the finished run of `study`."""
    tune(load_study(study), folder, TuneOptions(study, start=no_engine), SilentUi())
    return folder


@pytest.fixture(scope="session")
def fleet_study(finished_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of four replicas, each as the small study's profile says."""
    return write_fleet_study(tmp_path_factory.mktemp("fleet") / "fleet.yaml", finished_run, {})


@pytest.fixture(scope="session")
def fleet_run(fleet_study: Path) -> RunFolder:
    """A finished run of it; read it, do not change it."""
    return tuned(fleet_study, RunFolder(fleet_study.parent / "run"))
