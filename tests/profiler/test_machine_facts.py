"""Hardware and provenance, as kept in the facts of artefacts."""

from __future__ import annotations

import json
import subprocess
from datetime import datetime
from pathlib import Path

from profiler.hardware import this_machine
from profiler.provenance import provenance_now, source_commit


def test_hardware_of_this_machine(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: Made-Up 9000 @ 3 GHz\n")
    machine = this_machine(cpuinfo)
    assert machine.processor == "Made-Up 9000 @ 3 GHz"
    assert machine.num_cores >= 1
    assert machine.memory_bytes > 1 << 28
    json.dumps(machine.to_dict())


def test_a_machine_without_cpuinfo_still_has_a_processor(tmp_path: Path) -> None:
    assert this_machine(tmp_path / "none").processor


def test_provenance_is_dated_and_plain() -> None:
    now = provenance_now()
    assert datetime.fromisoformat(now.date).utcoffset() is not None
    assert now.stallfree_version
    json.dumps(now.to_dict())


def _git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True)


def test_commit_of_a_checkout_says_when_it_was_edited(tmp_path: Path) -> None:
    assert source_commit(tmp_path) is None
    _git(tmp_path, "init", "-q")
    assert source_commit(tmp_path) is None
    (tmp_path / "file").write_text("one")
    _git(tmp_path, "add", "file")
    _git(tmp_path, "commit", "-q", "-m", "first")
    commit = source_commit(tmp_path)
    assert commit is not None
    assert len(commit) == 12
    (tmp_path / "file").write_text("two")
    assert source_commit(tmp_path) == f"{commit}+changes"
