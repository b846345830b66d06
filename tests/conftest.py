"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parent.parent


def _recorded(name: str) -> Path:
    folder = Path(os.environ.get("STALLFREE_TRACES") or _ROOT.parent / "shared" / "traces")
    path = folder / name
    if not path.is_file():
        pytest.skip(f"recorded trace {name} is not in {folder}; set STALLFREE_TRACES")
    return path


@pytest.fixture(scope="session")
def azure_trace_path() -> Path:
    """Azure LLM inference trace 2023, conversation."""
    return _recorded("AzureLLMInferenceTrace_conv.csv")


@pytest.fixture(scope="session")
def azure_code_path() -> Path:
    """Azure LLM inference trace 2023, code."""
    return _recorded("AzureLLMInferenceTrace_code.csv")


@pytest.fixture(scope="session")
def mooncake_trace_path() -> Path:
    """Mooncake conversation trace (FAST '25 release)."""
    return _recorded("mooncake_conversation_trace.jsonl")


STUDY = """
name: small
traffic: {like: azure-conv-2023, rate_rps: 6.0, duration_s: 20, max_prompt_tokens: 1500,
          max_output_tokens: 16, seed: 1}
engine: {name: fake, model: none, config: {max_model_len: 4096}}
profile: {budget_s: 40}
slo: {default: {ttft_p99_s: 2.0, itl_p99_s: 0.06}}
search:
  trials: 8
  space:
    max_num_batched_tokens: {low: 128, high: 2048, log: true}
    long_prefill_token_threshold: [0, 128, 256]
validate: {top: 1, seconds: 10, rounds: 2}
"""


@pytest.fixture(scope="session")
def small_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study file of the fake engine: the whole main job in a few seconds."""
    path = tmp_path_factory.mktemp("study") / "small.yaml"
    path.write_text(STUDY)
    return path


@pytest.fixture(scope="session")
def finished_run(small_study: Path) -> Path:
    """The run folder that `small_study` leaves; read it, do not change it."""
    from tuner.results import RunFolder
    from tuner.search.progress import SilentUi
    from tuner.search.tune import TuneOptions, tune
    from tuner.study import load_study

    folder = RunFolder(small_study.parent / "stallfree-runs" / "small")
    tune(load_study(small_study), folder, TuneOptions(small_study), SilentUi())
    return folder.path
