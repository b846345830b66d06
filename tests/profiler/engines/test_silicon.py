"""A latency model from published GPU measurements, against figures seen before."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from profiler.collect import Profile
from profiler.collect.silicon import profile_silicon
from profiler.engine_config import EngineConfig
from profiler.engines.silicon.build import Silicon, build_silicon
from profiler.engines.silicon.published import Published, bundled_models
from profiler.engines.silicon.source import open_model, open_published
from profiler.engines.silicon.spec import NO_TERMS, SiliconSpec
from profiler.errors import SiliconError, StudyError
from profiler.latency.roofline import relative_errors

pytest.importorskip(
    "aiconfigurator_core", reason="the published GPU data is not installed: stallfree[silicon]"
)

LLAMA_8B = "meta-llama/Meta-Llama-3.1-8B"
LLAMA_70B = "meta-llama/Meta-Llama-3.1-70B"
SHAPES = (
    (0, 0, 0, 64, 128_000),
    (1, 2048, 0, 0, 0),
    (1, 2048, 8192, 64, 128_000),
    (1, 512, 0, 64, 128_000),
    (0, 0, 0, 1, 2000),
)
"""64 decodes at 2,000; 2,048 tokens at 0; the same at 8,192 with the decodes; 512 at 0 with them;
one decode"""


def published(spec: SiliconSpec) -> Published:
    with open_model(spec.model) as (folder, _):
        return open_published(spec, folder)


@pytest.fixture(scope="module")
def llama() -> Silicon:
    """8B on one H200, a small profile."""
    spec = SiliconSpec(LLAMA_8B, "h200_sxm", memory_fraction=0.9)
    return build_silicon(spec, EngineConfig(max_model_len=16384), num_shapes=600)


@pytest.mark.parametrize(
    ("model", "system", "tp", "expected_ms"),
    [
        (LLAMA_8B, "h200_sxm", 1, (9.38, 43.4, 61.0, 17.4, 4.91)),
        (LLAMA_70B, "h200_sxm", 4, (16.3, 128, 155, 43.6, 12.4)),
        (LLAMA_8B, "h100_sxm", 1, (12.45, 43.5, 63.7, 19.5, 6.23)),
    ],
)
def test_check_values(model: str, system: str, tp: int, expected_ms: tuple[float, ...]) -> None:
    source = published(SiliconSpec(model, system, tp=tp))
    found = [source.step_ms(*shape) for shape in SHAPES]
    np.testing.assert_allclose(found, expected_ms, rtol=6e-3)


def test_tabulation_error(llama: Silicon) -> None:
    steps = llama.published_steps()
    errors = relative_errors(llama.kernel_model.device_s(steps), steps.exec_s)
    assert np.median(errors) < 0.01
    assert np.quantile(errors, 0.95) < 0.05
    assert not llama.model.outside(steps).any()


def test_kv_capacity_and_what_the_budget_costs(llama: Silicon) -> None:
    blocks = dict(llama.kv_blocks_by_budget)
    expected = {2048: 886_956, 8192: 882_732, 16384: 877_100}
    assert {b: blocks[b] for b in expected} == {b: t // 16 for b, t in expected.items()}
    assert llama.num_kv_blocks == blocks[8192]
    larger = published(SiliconSpec(LLAMA_70B, "h200_sxm", tp=4, memory_fraction=0.9))
    assert larger.memory(8192).kv_tokens == pytest.approx(1.17e6, rel=0.01)


def test_terms_are_added_and_can_be_left_out(llama: Silicon) -> None:
    steps = llama.published_steps()
    kernel = llama.kernel_model
    assert (llama.model.device_s(steps) >= kernel.device_s(steps) * 0.98).all()
    assert llama.model.frontend_in_s == 0.015
    assert llama.model.params.host_per_running_s == 15e-6
    assert (kernel.frontend_in_s, kernel.params.host_s) == (NO_TERMS.frontend_s, NO_TERMS.host_s)


def test_resolved_settings(llama: Silicon) -> None:
    found = llama.resolved
    assert (found.max_num_batched_tokens, found.max_num_seqs) == (8192, 1024)
    assert (found.max_num_scheduled_tokens, found.max_model_len) == (8192, 16384)
    small = EngineConfig(max_num_batched_tokens=512, max_num_seqs=32)
    with open_model(LLAMA_8B) as (_, shape):
        assert shape.max_model_len == 131_072
    spec = SiliconSpec(LLAMA_8B, "h200_sxm")
    made = build_silicon(spec, small, nodes=5, num_shapes=30)
    assert (made.resolved.max_num_scheduled_tokens, made.resolved.max_num_active_seqs) == (512, 32)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"system": "h300"}, "system 'h300' is not in the published data; nearest: .*h200_sxm"),
        ({"engine": "sglang"}, "engine 'sglang' is not in the published data"),
        (
            {"model": "meta-llama/Llama-3.1-8B"},
            "no model .* nearest: .*meta-llama/Meta-Llama-3.1-8B",
        ),
        ({"weight_dtype": "fp7"}, "weight_dtype 'fp7' .* nearest: fp8"),
        ({"weight_dtype": "nvfp4"}, "weight formats that it has: bfloat16, fp8, fp8_block"),
        ({"tp": 3}, "tp must be a power of two, got 3"),
        (
            {"model": LLAMA_70B},
            "does not fit h200_sxm at tp=1: per GPU 13.*GiB of weights.* raise tp or give",
        ),
        (
            {"system": "l40s"},
            "max_model_len = 131072 needs .* has room for 6.* lower max_model_len",
        ),
    ],
)
def test_refusals(changes: dict[str, object], message: str) -> None:
    spec = replace(SiliconSpec(LLAMA_8B, "h200_sxm"), **changes)
    if changes.get("system") == "l40s":
        spec = replace(spec, memory_fraction=0.6)
    with pytest.raises(SiliconError, match=message):
        build_silicon(spec, nodes=5, num_shapes=30)


def test_a_config_file_is_as_good_as_its_name(tmp_path: Path) -> None:
    config = json.loads(bundled_models()[LLAMA_8B].read_text())
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(config))
    ours = published(SiliconSpec(str(file), "h200_sxm")).step_ms(*SHAPES[2])
    assert ours == published(SiliconSpec(LLAMA_8B, "h200_sxm")).step_ms(*SHAPES[2])
    file.write_text(json.dumps(config | {"head_dim": 48}))
    with pytest.raises(SiliconError, match="data missing"):
        published(SiliconSpec(str(file), "h200_sxm"))


def test_mixture_of_experts_and_fp8() -> None:
    spec = SiliconSpec("Qwen/Qwen3-235B-A22B", "h200_sxm", tp=8)
    cut, spread = published(spec), published(replace(spec, expert_parallel=True))
    assert cut.num_experts == 128
    assert cut.step_ms(*SHAPES[0]) != spread.step_ms(*SHAPES[0])
    eight = published(replace(spec, weight_dtype="fp8"))
    assert eight.memory(8192).weights == pytest.approx(cut.memory(8192).weights / 2, rel=0.02)


def test_a_profile_like_any_other(llama: Silicon, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("profiler.collect.silicon.build_silicon", lambda *_, **__: llama)
    made = profile_silicon(llama.spec)
    made.save(tmp_path)
    again = Profile.load(tmp_path)
    assert again.facts == json.loads(json.dumps(made.facts))
    assert again.report == made.report
    assert "aiconfigurator-core 0.12.0 at 603 random shapes" in made.report.reference
    assert made.report.worst_median < 0.01
    assert again.facts["silicon"]["data_version"] == "vllm 0.24.0"
    assert again.model.facts["num_kv_blocks"] == llama.num_kv_blocks
    with pytest.raises(StudyError, match="itself made from published measurements"):
        profile_silicon(llama.spec, measured=made)
    facts = {k: v for k, v in made.facts.items() if k != "silicon"}
    slow = replace(made.samples, exec_s=1.3 * llama.model.device_s(made.samples))
    real = replace(made, samples=slow, facts=facts, model=made.model.with_frontend(0.002, 0.001))
    corrected = profile_silicon(llama.spec, measured=real)
    assert corrected.facts["calibration"]["form"] == "one factor"
    assert corrected.facts["calibration"]["corrections"][0]["factor"] == pytest.approx(1.3)
    assert (corrected.model.frontend_in_s, corrected.model.frontend_out_s) == (0.002, 0.001)
    with pytest.raises(StudyError, match="of engine fake, not vllm"):
        profile_silicon(llama.spec, measured=replace(real, facts=facts | {"engine": "fake"}))
