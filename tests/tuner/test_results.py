"""Run folders: whole writes, locks, refusals."""

from __future__ import annotations

import errno
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from profiler.errors import ResultsError
from tuner.results import Results, RunFolder, find_runs
from tuner.saved_replay import SavedReplay
from tuner.slo import missed_in_words
from tuner.whole_files import read_json, whole_folder, write_json, writing


@pytest.fixture
def study_file(tmp_path: Path) -> Path:
    path = tmp_path / "study.yaml"
    path.write_text("name: x\n")
    return path


def begin(
    folder: RunFolder, study_file: Path, fingerprint: str, *, resume: bool, fresh: bool
) -> None:
    facts = {"fingerprint": fingerprint, "base": str(folder.base_of(study_file))}
    folder.begin(study_file.read_text(), facts, resume=resume, fresh=fresh)


def test_results_round_trip(tmp_path: Path, results: Results) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    folder.save_results(results)
    assert folder.load_results() == results
    assert find_runs(folder.path) == find_runs(tmp_path) == [folder.path]


def test_what_is_derived_while_results_are_written_goes_too(
    tmp_path: Path, results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is of the results before, and would be taken for the new ones' for ever."""
    folder = RunFolder(tmp_path)

    def write(path: Path, plain: Mapping[str, Any]) -> None:
        folder.derived("late").parent.mkdir()
        folder.derived("late").touch()
        write_json(path, plain)

    monkeypatch.setattr("tuner.results.write_json", write)
    folder.save_results(results)
    assert folder.load_results() == results and not folder.derived("late").exists()


def test_another_schema_version_is_refused(results: Results) -> None:
    with pytest.raises(ResultsError, match=r"schema version 99.*--fresh"):
        Results.from_dict({**results.to_dict(), "schema_version": 99})


def test_damaged_results_are_refused(results: Results) -> None:
    plain = results.to_dict()
    del plain["verdict"]
    with pytest.raises(ResultsError, match="damaged"):
        Results.from_dict(plain)


def test_no_results_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"no finished run.*stallfree tune"):
        RunFolder(tmp_path).load_results()


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    refused = pytest.raises(ResultsError, match="in use by another run")
    with folder.lock(), refused, folder.lock():
        pass
    with folder.lock():  # and it is free again
        pass


def test_begin_asks_for_resume_or_fresh(tmp_path: Path, study_file: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    begin(folder, study_file, "a", resume=False, fresh=False)
    with pytest.raises(ResultsError, match=r"--resume.*--fresh"):
        begin(folder, study_file, "a", resume=False, fresh=False)
    begin(folder, study_file, "a", resume=True, fresh=False)
    with pytest.raises(ResultsError, match="other traffic"):
        begin(folder, study_file, "b", resume=True, fresh=False)
    folder.trace.touch()
    begin(folder, study_file, "b", resume=False, fresh=True)
    assert not folder.trace.exists()


def test_fresh_removes_only_a_runs_own_files(tmp_path: Path, study_file: Path) -> None:
    folder = RunFolder(tmp_path)  # the study's own folder: the worst choice one can make
    begin(folder, study_file, "a", resume=False, fresh=False)
    (tmp_path / "notes.txt").write_text("mine")
    begin(folder, study_file, "a", resume=False, fresh=True)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert study_file.read_text() == "name: x\n"


def test_a_fresh_run_of_the_copy_knows_where_its_paths_start(
    tmp_path: Path, study_file: Path
) -> None:
    folder = RunFolder(tmp_path / "run")
    begin(folder, study_file, "a", resume=False, fresh=False)
    begin(folder, folder.study_file, "a", resume=False, fresh=True)
    assert folder.base == study_file.parent.resolve()


def test_fresh_leaves_a_folder_that_is_no_run_alone(tmp_path: Path, study_file: Path) -> None:
    (tmp_path / "profile").mkdir()
    begin(RunFolder(tmp_path), study_file, "a", resume=False, fresh=True)
    assert (tmp_path / "profile").exists()


def test_replays_round_trip(tmp_path: Path, saved_replay: SavedReplay) -> None:
    folder = RunFolder(tmp_path)
    assert folder.load_replay("key", 0) is None
    folder.save_replay("key", 0, saved_replay)
    loaded = folder.load_replay("key", 0)
    assert loaded is not None
    assert loaded.facts == saved_replay.facts
    assert loaded.raw.gap_s.tolist() == saved_replay.raw.gap_s.tolist()
    folder.forget("confirm")
    assert folder.load_replay("key", 0) is None


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    place = tmp_path / "profile"
    with pytest.raises(RuntimeError), whole_folder(place) as folder:
        (folder / "half").touch()
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_json_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_json(path, {"a": 1})
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(path, {"a": float("nan")})
    assert read_json(path) == {"a": 1}


@pytest.mark.parametrize("text", ["", "{", "[1]"])
def test_damaged_json_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(ResultsError, match="run again with --fresh"):
        read_json(path)


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"no space left.*--resume"), writing(tmp_path):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_an_unwritable_place_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused = pytest.raises(ResultsError, match="cannot be written")
    with refused, RunFolder(tmp_path / "file" / "run").lock():
        pass


def test_results_are_json(results: Results) -> None:
    plain = json.loads(json.dumps(results.to_dict(), allow_nan=False))
    for name in ("default", "recommended"):
        assert {"settings", "predicted", "measured"} <= set(plain[name])
        for key in ("ttft_p50_s", "ttft_p99_s", "itl_p50_s", "itl_p99_s", "goodput_rps"):
            assert key in plain[name]["predicted"]
            assert key in plain[name]["measured"]
    assert {"meets_slo", "trials", "provenance"} <= set(plain)


def test_a_violation_without_end_is_kept(results: Results, tmp_path: Path) -> None:
    """No request was served: the TTFT has no end, and JSON has no infinity."""
    folder = RunFolder(tmp_path)
    folder.save_results(replace(results, misses={"default.ttft_p99_s": math.inf}))
    assert folder.load_results().misses == {"default.ttft_p99_s": math.inf}
    assert missed_in_words(folder.load_results().misses) == "default.ttft_p99_s, which has no end"
