"""`stallfree profile --silicon`, and studies that ask for published measurements."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from profiler.engines.silicon.fitted import fitted_terms
from profiler.engines.silicon.spec import Terms
from profiler.errors import StudyError
from tuner.candidate import Verdict
from tuner.cli.predict import FITTED_TERMS, terms_without
from tuner.results import RunFolder
from tuner.search.progress import SilentUi
from tuner.search.tune import TuneOptions, tune
from tuner.silicon_section import SiliconSection, TermsSection
from tuner.study import load_study

LLAMA_8B = "meta-llama/Meta-Llama-3.1-8B"
LLAMA_70B = "meta-llama/Meta-Llama-3.1-70B"
STUDY = f"""
name: gpu
traffic: {{like: azure-conv-2023, rate_rps: 8.0, duration_s: 20, max_prompt_tokens: 4000, seed: 1}}
engine: {{name: vllm, model: {LLAMA_8B}, config: {{max_model_len: 8192}}}}
profile: {{silicon: {{system: h200_sxm, tp: 2, weight_dtype: fp8, terms: {{frontend_s: 0.01}}}}}}
slo: {{default: {{ttft_p99_s: 1.0, itl_p99_s: 0.05}}}}
search: {{trials: 4, space: {{max_num_batched_tokens: {{low: 256, high: 8192, log: true}}}}}}
"""


def needs_data() -> None:
    pytest.importorskip(
        "aiconfigurator_core", reason="the published GPU data is not installed: stallfree[silicon]"
    )


def test_a_profile_for_a_gpu_and_a_simulation_with_it(stallfree, tmp_path: Path) -> None:
    needs_data()
    place = tmp_path / "profile"
    words = ("--silicon", "--model", LLAMA_8B, "--system", "h200_sxm", "--without", "frontend_s")
    words += ("--without", "fitted")
    code, out, _ = stallfree("profile", *words, "--set", "max_model_len=8192", "-o", place)
    assert code == 0
    assert "at 5,003 random shapes" in " ".join(out.split())
    assert "KV capacity: 905,824 tokens" in out
    assert "frontend_s 0" in out
    trace = tmp_path / "t.csv"
    trace.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + "2023-11-16 18:15:46,2048,16\n")
    code, out, _ = stallfree("simulate", "--trace", trace, "--latency-model", place, "--json")
    assert code == 0
    assert json.loads(out)["ttft_p50_s"] == pytest.approx(43.4e-3 + 0.5e-3, rel=0.02)


def test_a_study_on_a_gpu(tmp_path: Path) -> None:
    needs_data()
    path = tmp_path / "gpu.yaml"
    path.write_text(STUDY)
    study, folder = load_study(path), RunFolder(tmp_path / "run")
    results = tune(study, folder, TuneOptions(path), SilentUi())
    assert results.verdict is Verdict.PREDICTED
    assert results.engine["args"] == {"tensor_parallel_size": 2, "quantization": "fp8"}
    assert results.default.resolved["max_num_batched_tokens"] == 8192
    assert folder.profile.is_dir()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "give a study, --silicon with --model and --system, or --kv-link"),
        (("--silicon", "--system", "h200_sxm"), "--silicon needs --model"),
        (
            ("--silicon", "--model", "m", "--system", "h200_sxm", "--without", "rain"),
            "--without takes one of step_s, host_s, host_per_running_s, frontend_s, graph_padding",
        ),
    ],
)
def test_one_line_when_something_is_missing(stallfree, words, message: str) -> None:
    code, _, err = stallfree("profile", *words)
    assert code == 2
    assert message in err and err.count("\n") == 1


def test_terms_can_be_left_out() -> None:
    assert terms_without(()) == Terms()
    left = terms_without(("graph_padding", "step_s"))
    assert (left.graph_padding, left.step_s, left.host_s) == (False, 0.0, Terms().host_s)


def test_fitted_constants_are_used_unless_left_out() -> None:
    known = fitted_terms("h200_sxm", LLAMA_70B, "fp8")
    assert known.chunk_factor != 1.0
    assert terms_without(("host_s",), known).chunk_factor == known.chunk_factor
    assert terms_without(("chunk_factor",), known).chunk_factor == 1.0
    assert terms_without((FITTED_TERMS,), known) == Terms()
    section = SiliconSection(
        system="h200_sxm", weight_dtype="fp8", terms=TermsSection(decode_factor=1.2)
    )
    terms = section.chosen_terms(LLAMA_70B)
    assert (terms.decode_factor, terms.chunk_factor) == (1.2, known.chunk_factor)
    plain = SiliconSection(system="h200_sxm", terms=TermsSection(fitted=False))
    assert plain.chosen_terms(LLAMA_70B) == Terms()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("{silicon:", "{budget_s: 30, silicon:", "give exactly one of budget_s"),
        ("name: vllm", "name: fake", "profile.silicon predicts vllm, got engine.name 'fake'"),
        (
            "config:",
            "args: {tensor_parallel_size: 4}, config:",
            "engine.args.tensor_parallel_size is 4 and profile.silicon asks for 2",
        ),
        ("system: h200_sxm", "gpu: h200_sxm", "unknown key"),
    ],
)
def test_studies_that_contradict_themselves(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    path = tmp_path / "gpu.yaml"
    path.write_text(STUDY.replace(old, new))
    with pytest.raises(StudyError, match=message):
        load_study(path)


def test_paths_in_a_study_are_relative_to_it(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text("{}")
    path = tmp_path / "gpu.yaml"
    path.write_text(STUDY.replace("{system:", "{model: mine.json, calibrate: p, system:"))
    study = load_study(path)
    assert study.profile.silicon is not None
    assert study.profile.silicon.calibrate == str(tmp_path / "p")
    assert study.silicon_spec().model == str(tmp_path / "mine.json")
    assert study.silicon_spec().terms.frontend_s == 0.01
