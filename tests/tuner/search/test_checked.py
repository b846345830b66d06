"""An engine version that the rules were not checked for: refused, or accepted and written down."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from profiler.engine_config import EngineConfig
from profiler.engines import start_engine
from profiler.engines.base import Engine, EngineSpec
from profiler.errors import EngineVersionError
from tuner.cli.whatif import from_run
from tuner.export.bundle import BundleOptions, bundle
from tuner.results import RunFolder
from tuner.schema import Study
from tuner.search.progress import SilentUi
from tuner.search.tune import TuneOptions, tune
from tuner.study import load_study, overridden


class Relabelled:
    """Starts the fake engine, which then says that it is a vLLM of `version`."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.started: list[Engine] = []
        self.stopped = 0

    def __call__(self, spec: EngineSpec) -> Engine:
        engine = start_engine(replace(spec, engine="fake"))
        engine.facts = replace(engine.facts, engine="vllm", version=self.version)
        stop = engine.stop

        def counted() -> None:
            self.stopped += 1
            stop()

        engine.stop = counted  # type: ignore[method-assign]
        self.started.append(engine)
        return engine


class Ears(SilentUi):
    """Keeps what was said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def stage(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture
def vllm_study(small_study: Path) -> Study:
    return overridden(load_study(small_study), {"engine.name": "vllm"})


def test_refused_before_it_is_profiled_then_accepted_with_the_flag(
    small_study: Path, vllm_study: Study, tmp_path: Path
) -> None:
    folder, start = RunFolder(tmp_path / "run"), Relabelled("0.99.0")
    with pytest.raises(EngineVersionError, match=r"vLLM 0\.99\.0 was not compared"):
        tune(vllm_study, folder, TuneOptions(small_study, start=start), SilentUi())
    assert len(start.started) == 1
    assert start.stopped >= 1
    assert not folder.profile.exists()

    accepted = overridden(vllm_study, {"engine.unchecked": True})
    ears = Ears()
    results = tune(accepted, folder, TuneOptions(small_study, resume=True, start=start), ears)
    assert len([s for s in ears.said if "unchecked engine" in s]) == 1
    assert "0.99.0" in results.provenance["engine"]["unchecked"]
    evidence = json.loads(bundle(results, BundleOptions())["evidence.json"])
    assert "0.99.0" in evidence["engine"]["unchecked"]


def test_a_profile_of_an_unchecked_version_is_not_simulated(
    small_study: Path, finished_run: Path, tmp_path: Path
) -> None:
    folder = RunFolder(tmp_path / "run")
    shutil.copytree(finished_run, folder.path)
    facts = folder.profile / "facts.json"
    facts.write_text(facts.read_text().replace('"engine": "fake"', '"engine": "vllm"', 1))
    study = tmp_path / "study.yaml"
    study.write_text(small_study.read_text().replace("name: fake", "name: vllm"))
    case = from_run(study, folder, EngineConfig(), seed=0)
    with pytest.raises(EngineVersionError, match="vLLM 1 was not compared"):
        case.unchecked_note(accept=False)
    assert case.unchecked_note(accept=True) is not None


def test_the_fake_engine_is_no_vllm(finished_run: Path) -> None:
    results = RunFolder(finished_run).load_results()
    assert results.provenance["engine"]["unchecked"] is None
