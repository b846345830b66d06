"""The main job on the fake engine: what it leaves, and that it goes on where it was."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from profiler.engines import start_engine
from profiler.engines.base import Engine, EngineSpec, Progress
from profiler.errors import EngineDiedError, ResultsError, StudyError
from tuner.candidate import Verdict
from tuner.results import RunFolder
from tuner.search.progress import SilentUi
from tuner.search.tune import TuneOptions, confirm_again, fingerprint, tune
from tuner.study import load_study, overridden


@pytest.fixture
def half_way(finished_run: Path, tmp_path: Path) -> RunFolder:
    """A copy of the finished run that was killed before its confirmation."""
    folder = RunFolder(tmp_path / "run")
    shutil.copytree(finished_run, folder.path)
    (folder.path / "results.json").unlink()
    folder.forget("confirm")
    return folder


def no_engine(spec: EngineSpec) -> Engine:
    raise AssertionError(f"no engine should be started, got {spec}")


def test_what_a_run_leaves(finished_run: Path) -> None:
    names = {path.name for path in finished_run.iterdir()}
    assert names == {
        ".lock", "run.json", "study.yaml", "trace.parquet", "study.db", "profile", "confirm",
        "results.json", "state.json",
    }  # fmt: skip
    results = RunFolder(finished_run).load_results()
    assert results.trials == 8
    assert results.front[0]["settings"] == {"max_model_len": 4096}
    assert [c.label for c in results.candidates] == ["default", "candidate-1"]
    assert results.default.measured is not None
    assert results.provenance["engine"]["engine"] == "fake"
    assert len(results.provenance["trace_digest"]) == 64
    assert results.meets_slo is (results.verdict is not Verdict.NOTHING_MET)
    json.dumps(results.to_dict(), allow_nan=False)
    assert results.default.predicted is not None
    for scored in (results.front[0], results.default.predicted):
        low, high = scored["intervals"]["itl_p99_s"]
        assert low <= scored["itl_p99_s"] <= high
        assert set(scored["chance"]) == {
            "default.ttft_p99_s", "default.itl_p99_s", "default.unserved", "all",
        }  # fmt: skip
        assert all(8 * share in range(9) for share in scored["chance"].values())


def test_predictions_of_the_fake_engine_hold(finished_run: Path) -> None:
    for candidate in RunFolder(finished_run).load_results().candidates:
        assert candidate.predicted is not None and candidate.corrected is not None
        for name in ("ttft_p50_s", "ttft_p99_s", "itl_p99_s"):
            assert candidate.predicted[name] == pytest.approx(candidate.corrected[name], rel=0.15)


def test_resume_repeats_nothing(small_study: Path, finished_run: Path, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    shutil.copytree(finished_run, folder.path)
    before = folder.load_results()
    options = TuneOptions(small_study, resume=True, start=no_engine)
    after = tune(load_study(small_study), folder, options, SilentUi())
    assert (after.default, after.recommended) == (before.default, before.recommended)
    assert after.front == before.front


def test_an_engine_killed_in_the_confirmation(small_study: Path, half_way: RunFolder) -> None:
    def deadly(spec: EngineSpec) -> Engine:
        args = {"die_at_request": 5} if spec.config.max_num_batched_tokens else {}
        return start_engine(EngineSpec(spec.engine, spec.model, spec.config, engine_args=args))

    study = load_study(small_study)
    with pytest.raises(EngineDiedError):
        tune(study, half_way, TuneOptions(small_study, resume=True, start=deadly), SilentUi())
    assert len(list((half_way.path / "confirm").iterdir())) == 1
    after = tune(study, half_way, TuneOptions(small_study, resume=True), SilentUi())
    assert after.recommended.measured is not None


class InterruptedUi(SilentUi):
    """Ctrl-C at the fifth trial."""

    @contextmanager
    def progress(self, text: str) -> Iterator[Progress]:
        def report(done: int, total: int) -> None:
            del total
            if text == "search" and done == 5:
                raise KeyboardInterrupt

        yield report


def test_ctrl_c_keeps_finished_trials(small_study: Path, half_way: RunFolder) -> None:
    half_way.database.unlink()
    study = load_study(small_study)
    options = TuneOptions(small_study, resume=True)
    with pytest.raises(KeyboardInterrupt):
        tune(study, half_way, options, InterruptedUi())
    assert tune(study, half_way, options, SilentUi()).trials == 8


def test_a_tight_slo_ends_in_an_honest_verdict(
    small_study: Path, finished_run: Path, tmp_path: Path
) -> None:
    changes = {
        "profile.path": finished_run / "profile",
        "slo.default": {"ttft_p99_s": 0.001},
        "search.trials": 3,
    }
    study = overridden(load_study(small_study), changes)
    found = tune(study, RunFolder(tmp_path / "run"), TuneOptions(small_study), SilentUi())
    assert found.verdict is Verdict.NOTHING_MET
    assert not found.meets_slo
    assert found.misses["default.ttft_p99_s"] > 1


def test_confirm_again_measures_more(small_study: Path, half_way: RunFolder) -> None:
    study = overridden(load_study(small_study), {"validate.top": 2, "validate.rounds": 1})
    found = confirm_again(study, half_way, SilentUi(), again=False)
    assert len(found.candidates) == 3
    assert all(len(c.replays) == 1 for c in found.candidates)


def test_a_second_run_needs_a_decision(small_study: Path, finished_run: Path) -> None:
    with pytest.raises(ResultsError, match=r"--resume"):
        tune(load_study(small_study), RunFolder(finished_run), TuneOptions(small_study), SilentUi())


def test_an_unknown_slo_class_is_found_before_the_engine_starts(
    small_study: Path, tmp_path: Path
) -> None:
    study = overridden(load_study(small_study), {"slo.classes": {"vip": {"ttft_p99_s": 1.0}}})
    options = TuneOptions(small_study, start=no_engine)
    with pytest.raises(StudyError, match=r"slo\.classes\.vip: the traffic has no such class"):
        tune(study, RunFolder(tmp_path / "run"), options, SilentUi())


def test_a_profile_of_another_engine_is_refused(
    small_study: Path, finished_run: Path, tmp_path: Path
) -> None:
    changes = {"profile.path": finished_run / "profile", "engine.name": "vllm"}
    study = overridden(load_study(small_study), changes)
    with pytest.raises(StudyError, match="profile is of engine fake"):
        tune(study, RunFolder(tmp_path / "run"), TuneOptions(small_study), SilentUi())


def test_fingerprint_ignores_how_long_and_how_often(small_study: Path) -> None:
    study = load_study(small_study)
    longer = overridden(study, {"search.trials": 99, "validate.top": 9, "search.workers": 4})
    other = overridden(study, {"traffic.seed": 9})
    assert fingerprint(longer) == fingerprint(study) != fingerprint(other)
    assert fingerprint(overridden(study, {"search.windows": 2})) != fingerprint(study)


def test_windows_do_not_change_what_is_tried(
    small_study: Path, finished_run: Path, tmp_path: Path
) -> None:
    before = RunFolder(finished_run).load_results()
    changes = {"profile.path": finished_run / "profile", "search.windows": 1}
    study = overridden(load_study(small_study), changes)
    found = tune(study, RunFolder(tmp_path / "run"), TuneOptions(small_study), SilentUi())
    for now, then in zip(found.front, before.front, strict=True):
        assert now == {**then, "intervals": {}, "chance": {}}


def test_another_versions_trials_are_refused(small_study: Path, half_way: RunFolder) -> None:
    with sqlite3.connect(half_way.database) as database:
        database.execute(
            "UPDATE trial_user_attributes SET value_json = replace(value_json, 'num_windows', 'x')"
        )
    database.close()
    with pytest.raises(ResultsError, match=r"another Stallfree version .*--fresh"):
        confirm_again(load_study(small_study), half_way, SilentUi(), again=False)
