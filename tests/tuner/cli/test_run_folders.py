"""Commands that go on with a run folder, and the worker."""

from __future__ import annotations

import json
import shutil
from pathlib import Path


def test_tune_goes_on_in_a_run_folder(stallfree, finished_run: Path, tmp_path: Path) -> None:
    """Also where its paths start from another place: that is in run.json."""
    folder = tmp_path / "run"
    shutil.copytree(finished_run, folder)
    (folder / "results.json").unlink()
    code, out, _ = stallfree("tune", folder, "--resume", "--json")
    assert code == 0
    assert json.loads(out)["study"] == "small"
    assert json.loads((folder / "run.json").read_text())["base"] == str(finished_run.parents[1])
    code, _, err = stallfree("tune", folder)
    assert (code, "give --resume" in err) == (2, True)
    code, _, err = stallfree("tune", folder, "--out", tmp_path / "other")
    assert (code, "leave --out away" in err) == (2, True)


def test_a_run_goes_on_with_what_the_command_line_changed(
    stallfree, small_study: Path, finished_run: Path, tmp_path: Path
) -> None:
    """Also by its folder alone, as a worker does; what was not changed stays as it was written."""
    study, trace, folder = tmp_path / "small.yaml", tmp_path / "t.csv", tmp_path / "run"
    shutil.copy(small_study, study)
    trace.write_text("arrival,prompt,output\n" + "".join(f"{i},{90 + i},5\n" for i in range(20)))
    profile = ["--profile", finished_run / "profile"]
    words = ["tune", study, "--trace", trace, *profile, "--trials", "2", "--out", folder]
    assert stallfree(*words)[0] == 0
    (folder / "results.json").unlink()
    code, out, err = stallfree("tune", folder, "--resume", "--json")
    assert code == 0, err
    assert json.loads(out)["trials"] == 2
    code, out, err = stallfree("tune", folder, "--resume", "--trials", "3", "--json")
    assert code == 0, err
    assert json.loads(out)["trials"] == 3
    assert (finished_run / "study.yaml").read_text() == small_study.read_text()


def test_a_worker_drains_an_empty_queue(stallfree, tmp_path: Path) -> None:
    code, _, err = stallfree("worker", tmp_path / "runs", "--once")
    assert code == 0
    assert "looking for queued studies" in err
