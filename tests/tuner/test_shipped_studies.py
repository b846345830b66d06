"""The studies that people copy: they load, their traffic is as published, and one runs whole."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from profiler.traffic.doctor import prefix_sharing
from profiler.traffic.trace import Trace
from tuner.search.objective import require_room, slo_of
from tuner.study import build_trace, load_study

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "studies").glob("*.yaml"))
GPU_STUDIES = (
    "agents-32b-h200",
    "batch-70b-b200",
    "chat-8b-h100",
    "code-32b-h200",
    "rag-70b-h200",
)


@pytest.fixture
def studies_table(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(ROOT / "tests/benchmarks"))
    import studies_table

    return studies_table


def traffic_of(name: str) -> Trace:
    return build_trace(load_study(ROOT / "studies" / f"{name}.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_every_study_loads_and_its_traffic_fits_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# ") and "# Whose workload:" in text
    study = load_study(path)
    assert study.name == path.stem
    trace = build_trace(study)
    assert slo_of(study, trace).has_limits
    require_room(trace, study.fixed.max_model_len)
    assert 300 <= trace.num_requests <= (5000 if study.fleet is None else 30_000)


def test_chat_is_as_published() -> None:
    """Splitwise (ISCA 2024): medians of 1,020 and 129 tokens."""
    trace = traffic_of("chat-8b-h100")
    assert np.median(trace.prompt_tokens) == pytest.approx(1020, rel=0.05)
    assert np.median(trace.output_tokens) == pytest.approx(129, rel=0.10)
    assert trace.rate_rps == pytest.approx(12.0, rel=0.05)


def test_code_is_as_published() -> None:
    """Splitwise (ISCA 2024): medians of 1,500 and 13 tokens."""
    trace = traffic_of("code-32b-h200")
    assert np.median(trace.prompt_tokens) == pytest.approx(1500, rel=0.06)
    assert np.median(trace.output_tokens) == pytest.approx(13, abs=1)
    assert trace.rate_rps == pytest.approx(1.0, rel=0.15)


def test_agents_are_as_published() -> None:
    """Mooncake (FAST 2025), conversation: 12,035 and 343 tokens on average, before the cut."""
    study = load_study(ROOT / "studies/agents-32b-h200.yaml")
    whole = study.traffic.model_copy(update={"max_prompt_tokens": None, "duration_s": None})
    trace = build_trace(study.model_copy(update={"traffic": whole}))
    assert trace.prompt_tokens.mean() == pytest.approx(12_035, rel=0.05)
    assert trace.output_tokens.mean() == pytest.approx(343, rel=0.05)
    sharing = prefix_sharing(trace)
    assert sharing is not None  # 0.373 of the recording's tokens, in whole blocks
    assert sharing["hit_token_share"] == pytest.approx(0.373, abs=0.04)


def test_retrieval_is_long_beside_chat() -> None:
    trace = traffic_of("rag-70b-h200")
    rag = trace.prompt_tokens[trace.classes == trace.class_names.index("rag")]
    assert rag.min() >= 10_000 and rag.max() <= 60_000
    assert rag.size / trace.num_requests == pytest.approx(0.25 / 4.25, rel=0.2)


def test_the_readme_has_a_row_of_every_gpu_study(studies_table) -> None:
    assert tuple(path.stem for path in studies_table.gpu_studies()) == GPU_STUDIES
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "`make studies`" in readme
    for name in GPU_STUDIES:
        assert f"| {name} | engine default: " in readme
    assert "studies_table.py" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_one_runs_from_file_to_table(
    studies_table, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys
) -> None:
    pytest.importorskip(
        "aiconfigurator_core", reason="the published GPU data is not installed: stallfree[silicon]"
    )
    from tuner.cli.app import main

    def stallfree(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["stallfree", *words])
        with pytest.raises(SystemExit) as stop:
            main()
        assert stop.value.code == 0
        return capsys.readouterr().out

    study, out = str(ROOT / "studies/rag-70b-h200.yaml"), str(tmp_path / "run")
    options = ("--trials", "4", "--windows", "2", "--json")
    results = json.loads(stallfree("tune", study, "--out", out, *options))
    assert results["num_gpus"] == 8
    predicted = results["recommended"]["predicted"]
    assert results["goodput_per_gpu_rps"]["recommended"] == predicted["goodput_rps"] / 8
    default, best = studies_table.rows(results, 12.3)
    assert default[:2] == ["rag-70b-h200", "engine default: budget 8,192, sequences 1,024"]
    assert "chat " in default[3] and "rag " in default[3] and best[-2].endswith("/2")
    evidence = (tmp_path / "run/bundle/evidence.json").read_text()
    bundle = evidence + (tmp_path / "run/bundle/vllm.yaml").read_text()
    assert "nothing was measured" in bundle
    assert "rehearsed" not in bundle + json.dumps(results)
    assert "goodput per GPU" in stallfree("show", out)
