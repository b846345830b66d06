"""The first compile is said on stderr, and only then."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from profiler.compiled import cache_folder
from tuner import simulator
from tuner.cli.app import main
from tuner.cli.console import compile_simulator
from tuner.simulator import compilation

LINE = "compiling the simulator, once, about 25 s"


def simulate_small(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *more: str
) -> tuple[str, str]:
    """(stdout, stderr) of `stallfree simulate --json` on a trace of one request."""
    trace = folder / "t.csv"
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n0,50,3\n")
    words = ["simulate", "--trace", str(trace), "--latency-model", "example-8b", "--json", *more]
    monkeypatch.setattr(sys, "argv", ["stallfree", *words])
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code
    out, err = capsys.readouterr()
    return out, err


def test_the_first_compile_is_one_line_on_stderr(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[tuple[bool, ...]] = []
    monkeypatch.setattr(simulator, "is_compiled", lambda *kernel: False)
    monkeypatch.setattr(simulator, "prepare", lambda *kernel: calls.append(kernel))
    out, err = simulate_small(tmp_path, monkeypatch, capsys)
    assert calls == [(False, False)]
    assert err.strip() == LINE
    assert json.loads(out)["num_finished"] == 1


def test_a_configuration_with_drafts_compiles_its_own_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[tuple[bool, ...]] = []
    monkeypatch.setattr(simulator, "is_compiled", lambda *kernel: False)
    monkeypatch.setattr(simulator, "prepare", lambda *kernel: calls.append(kernel))
    drafts = ("--set", "num_speculative_tokens=2", "--acceptance", "0.5")
    out, err = simulate_small(tmp_path, monkeypatch, capsys, *drafts)
    assert calls == [(True, False)]
    assert err.strip() == "compiling the simulator for draft tokens, once, about 15 s"
    assert json.loads(out)["num_finished"] == 1


def test_fleets_have_a_kernel_of_their_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[tuple[bool, ...]] = []
    monkeypatch.setattr(simulator, "is_compiled", lambda *kernel: False)
    monkeypatch.setattr(simulator, "prepare", lambda *kernel: calls.append(kernel))
    compile_simulator(fleet=True)
    assert calls == [(False, True)]
    assert capsys.readouterr().err.strip() == "compiling the simulator for fleets, once, about 60 s"


def test_nothing_is_said_when_the_kernels_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    simulator.prepare()
    monkeypatch.setattr(compilation, "_PREPARED", set())  # the files alone must tell
    out, err = simulate_small(tmp_path, monkeypatch, capsys)
    assert err == ""
    assert json.loads(out)["num_finished"] == 1


def test_compiled_means_that_every_entry_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STALLFREE_CACHE", str(tmp_path))
    monkeypatch.setattr("numba.core.config.DISABLE_JIT", 0)
    monkeypatch.setattr(compilation, "_PREPARED", set())
    folder = cache_folder() / "simulator_0"
    folder.mkdir(parents=True)
    assert not simulator.is_compiled()
    (folder / "kernel.run_all-1.py311.1.nbc").touch()
    assert not simulator.is_compiled()
    (folder / "gaps.add_to_bins-1.py311.1.nbc").touch()
    assert simulator.is_compiled()
    assert not simulator.is_compiled(speculative=True)
    (folder / "speculative_kernel.run_speculative-1.py311.1.nbc").touch()
    assert simulator.is_compiled(speculative=True)
    assert not simulator.is_compiled(fleet=True)
    (folder / "fleet_kernel.run_fleet-1.py311.1.nbc").touch()
    assert simulator.is_compiled(fleet=True)
    monkeypatch.setattr(compilation, "_PREPARED", {compilation.ENGINE})
    monkeypatch.setenv("STALLFREE_CACHE", str(tmp_path / "elsewhere"))
    assert simulator.is_compiled()
