"""The page that exports."""

from __future__ import annotations

import io
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from typer.testing import CliRunner

from dashboard.archive import archive_name, archive_of, export_command
from dashboard.words import export_words
from tests.dashboard.conftest import Look
from tests.tuner.export.planned import MIXED, run_of
from tuner.candidate import Evidence
from tuner.cli.app import app as cli
from tuner.export.from_results import picked
from tuner.export.targets import TARGETS
from tuner.results import RunFolder


@pytest.fixture
def downloads(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """File name -> bytes of every download that pages offer."""
    offered: dict[str, bytes] = {}

    def button(label: str, data: Any, file_name: str, *rest: Any, **more: Any) -> bool:
        del label, rest, more
        offered[file_name] = data
        return False

    monkeypatch.setattr(st, "download_button", button)
    return offered


def written_by_cli(run: Path, out: Path, *options: str) -> dict[str, bytes]:
    """What `stallfree export RUN ... -o OUT` writes."""
    result = CliRunner().invoke(cli, ["export", str(run), *options, "-o", str(out)])
    assert result.exit_code == 0, result.output
    return {
        path.relative_to(out).as_posix(): path.read_bytes()
        for path in out.rglob("*")
        if path.is_file()
    }


def unpacked(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.parametrize(("target", "pick"), [("vllm", "recommended"), ("kubernetes", "1")])
def test_the_archive_holds_what_the_command_writes(
    look: Look, storage: Path, tmp_path: Path, downloads: dict[str, bytes], target: str, pick: str
) -> None:
    app = look(storage, "export", run="finished", point=pick)
    next(s for s in app.selectbox if s.label == "Target").set_value(target)
    app.run()
    assert not app.exception
    content = downloads[archive_name("small", pick, target)]
    options = ("--target", target, "--pick", pick)
    assert unpacked(content) == written_by_cli(storage / "finished", tmp_path / "out", *options)
    command = app.code[0].value
    assert command == export_command(storage / "finished", target, pick, None)
    assert f"--target {target} --pick {pick} -o DIR" in command


def test_the_archive_with_a_current_file_too(
    look: Look, storage: Path, tmp_path: Path, downloads: dict[str, bytes]
) -> None:
    current = b"max-num-batched-tokens: 2048\n"
    app = look(storage, "export", run="finished")
    app.file_uploader[0].upload("../../old vllm.yaml", current, "text/yaml")
    app.run()
    assert not app.exception and not app.error
    (tmp_path / "old_vllm.yaml").write_bytes(current)
    options = ("--current", str(tmp_path / "old_vllm.yaml"))
    written = written_by_cli(storage / "finished", tmp_path / "out", *options)
    assert "previous/old_vllm.yaml" in written
    assert unpacked(downloads["small-recommended-vllm.zip"]) == written
    assert any(code.language == "diff" and "+++ vllm.yaml" in code.value for code in app.code)
    assert any("# Back from small" in m.value for m in app.markdown)
    app.file_uploader[0].upload("x.yaml", b"\xff\xfe\x00", "text/yaml")
    app.run()
    assert "not UTF-8" in app.error[0].value and not app.exception


def test_the_same_files_are_the_same_bytes_in_any_order() -> None:
    files = {"b.txt": "two\n", "a/c.txt": "ü\n", "a.txt": ""}
    content = archive_of(files)
    assert content == archive_of(dict(sorted(files.items())))
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = archive.infolist()
    assert [e.filename for e in entries] == ["a.txt", "a/c.txt", "b.txt"]
    assert {e.date_time for e in entries} == {(1980, 1, 1, 0, 0, 0)}
    assert {e.external_attr >> 16 for e in entries} == {0o100644}


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_has_its_page(look: Look, storage: Path, target: str) -> None:
    app = look(storage, "export", run="finished")
    next(s for s in app.selectbox if s.label == "Target").set_value(target)
    app.run()
    assert not app.exception and not app.error
    assert "settings are exported" in " ".join(m.value for m in app.markdown)


def test_a_target_that_cannot_is_one_line(look: Look, tmp_path: Path, finished_run: Path) -> None:
    folder = RunFolder(tmp_path / "fleet")
    folder.path.mkdir()
    (folder.path / "study.yaml").write_text((finished_run / "study.yaml").read_text())
    folder.save_results(run_of(MIXED))
    app = look(tmp_path, "export", run="fleet")
    next(s for s in app.selectbox if s.label == "Target").set_value("kubernetes")
    app.run()
    assert not app.exception
    assert "kubernetes cannot run this configuration" in app.error[-1].value


def test_what_is_exported_follows_the_session(look: Look, storage: Path) -> None:
    app = look(storage, "export", run="finished", point="0")
    box = next(s for s in app.selectbox if s.label == "Configuration")
    assert "trial 0 (default)" in box.options
    assert "Study small, default" in app.markdown[0].value
    box.set_value("recommended")
    app.run()
    assert app.query_params["point"] in ("recommended", ["recommended"])
    unknown = look(storage, "export", run="finished", point="99")
    assert "no point '99'" in unknown.warning[0].value and not unknown.exception


def test_its_standing_is_said_first(look: Look, finished_run: Path, tmp_path: Path) -> None:
    results = RunFolder(finished_run).load_results()
    pick = picked(results)
    met = replace(pick, meets_slo=True, misses={})
    assert export_words.standing(results, met).startswith("Meets its SLOs, measured")
    missed = replace(pick, meets_slo=False, misses={"default.itl_p99_s": 0.125})
    assert "MISSES its SLOs (ITL p99 by 12 %)" in export_words.standing(results, missed)
    only = replace(met, evidence=Evidence.PREDICTED)
    assert "Only predicted, nothing was measured" in export_words.standing(results, only)
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    (folder.path / "study.yaml").write_text((finished_run / "study.yaml").read_text())
    folder.save_results(replace(results, meets_slo=False, misses={"default.itl_p99_s": 0.5}))
    app = look(tmp_path, "export", run="run")
    assert "MISSES" in app.error[0].value and not app.success


def test_infinite_and_missing_figures_are_left_out(finished_run: Path) -> None:
    results = RunFolder(finished_run).load_results()
    pick = picked(results)
    figures = dict.fromkeys(pick.candidate.measured or {}, None) | {"goodput_rps": 0.5}
    bare = replace(pick, candidate=replace(pick.candidate, measured=figures))
    assert export_words.standing(results, bare).endswith("Measured: goodput 0.5 requests/s.")
