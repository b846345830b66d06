"""The gate: figures are the simulator's own, and what is not judged is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler.engine_config import EngineConfig
from profiler.errors import KnobError
from tuner.gate import CURRENT, PROPOSED, RECOMMENDED, judge, not_judged
from tuner.results import RunFolder
from tuner.search.kept import KeptRun, load_kept
from tuner.search.progress import SilentUi
from tuner.settings_file import FileSettings


@pytest.fixture
def kept(finished_run: Path) -> KeptRun:
    return load_kept(finished_run, RunFolder(finished_run))


def settings(**config: int) -> FileSettings:
    return FileSettings(EngineConfig(**config), {"port": 8000}, ["a note"])


def test_it_predicts_what_the_search_would(kept: KeptRun) -> None:
    proposed, current = settings(max_num_batched_tokens=512), settings(max_num_batched_tokens=2048)
    found = judge(kept, proposed, current, SilentUi())
    problem = kept.problem()
    assert list(found.judged) == [PROPOSED, CURRENT, RECOMMENDED]
    assert found.judged[PROPOSED].metrics == problem.evaluate(proposed.config)
    assert found.judged[CURRENT].metrics == problem.evaluate(current.config)
    recommended = EngineConfig.from_settings(kept.results.recommended.settings)
    assert found.judged[RECOMMENDED].metrics == problem.evaluate(recommended)
    assert found.passes and not found.misses
    goodput = [found.judged[name].metrics.goodput_rps for name in (PROPOSED, CURRENT)]
    assert found.change == pytest.approx(goodput[0] / goodput[1] - 1)
    assert found.change > 0
    assert found.assumed == {"max_model_len": 4096}
    assert found.not_judged == ["port"] and found.notes == ["a note"]


def test_it_fails_what_breaks_an_slo(kept: KeptRun) -> None:
    found = judge(kept, settings(max_num_batched_tokens=2048), None, SilentUi())
    assert not found.passes and found.change is None
    assert found.misses["default.itl_p99_s"] > 0
    assert found.to_dict()["passes"] is False


def test_settings_that_clash_are_refused(kept: KeptRun) -> None:
    clash = settings(max_num_batched_tokens=64, max_num_seqs=128)
    with pytest.raises(KnobError, match="max_num_seqs"):
        judge(kept, clash, None, SilentUi())


def test_flags_that_are_no_knobs() -> None:
    profiled = {"enforce_eager": True, "dtype": "float32", "quantization": "fp8"}
    others = {
        "model": "x",
        "enforce_eager": "true",
        "dtype": "bfloat16",
        "api_key": "secret",
    }
    assert not_judged(others, profiled) == [
        "dtype is bfloat16, profiled with float32",
        "api_key",
        "quantization is not given, profiled with fp8",
    ]
