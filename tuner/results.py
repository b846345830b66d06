"""Run folders: the only module that knows where results are and their schema versions.

    run.json            schema version, fingerprint of the study, folder that its paths start from
    study.yaml          copy of the study file
    trace.parquet       the traffic that was used; trace.json: how it was read (`ReadReport`)
    study.db            every trial (SQLite, Optuna's schema)
    profile/            the profile artefact (`profiler.collect.Profile`)
    replicas/KIND/      of a fleet: the same for each other GPU and tensor-parallel size
    confirm/KEY/ROUND/  one replay (`tuner.saved_replay`)
    results.json        the outcome
    search-SIDE.db      every trial of one side, where a verdict searched
    verdict.json        aggregated or disaggregated (`tuner.verdict.report`)
    bundle/             what was exported
    state.json, stop    what the run is doing, and the request to stop (`tuner.search.run_state`)
    .claim, worker.log  of a worker that runs it (`tuner.search.run_queue`, `tuner.search.worker`)
    derived/            what the dashboard computed from the run; goes with the results

Whatever is written appears whole or not at all: it is written beside its place and renamed.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

from profiler.errors import ResultsError
from tuner.candidate import Candidate, Evidence, Verdict
from tuner.file_lock import try_lock
from tuner.metrics import or_inf, without_nan
from tuner.saved_replay import SavedReplay
from tuner.whole_files import read_json, write_json, write_text, writing

SCHEMA_VERSION = 3
VERDICT_VERSION = 1
DEFAULT_ROOT = Path("stallfree-runs")


@dataclass(frozen=True)
class Results:
    """The outcome of a run. Filled by `tuner.search.tune`; read by CLI, export and dashboard."""

    study: str
    verdict: Verdict
    meets_slo: bool
    misses: dict[str, float]
    """relative violation of each SLO by `recommended`, those that are violated; may be infinite"""
    default: Candidate
    recommended: Candidate
    candidates: list[Candidate]
    front: list[dict[str, Any]]
    """every finished trial: number, settings, values with intervals, chance, feasible, on_front"""
    slo: dict[str, dict[str, float]]
    """limits per class, seconds"""
    trials: int
    """finished trials, the engine default included"""
    infeasible_trials: int
    """finished trials whose settings the engine would refuse or that could not be predicted"""
    engine: dict[str, Any]
    """name, model and arguments to start it with"""
    provenance: dict[str, Any]
    evidence: Evidence
    """what the candidates' figures are; the one place that reports, exports and dashboard ask"""
    fleet: dict[str, Any] | None = None
    """of a search of fleets: GPU budget, link, kinds of replicas, what the search was cut to"""

    @property
    def num_gpus(self) -> int | None:
        """GPUs of one replica, where the profile knows them; of a fleet, the recommended one's."""
        return self.gpus_of(self.recommended)

    def gpus_of(self, candidate: Candidate) -> int | None:
        """GPUs that `candidate` runs on, where they are known."""
        if candidate.plan is not None:
            return candidate.plan.num_gpus
        return (self.provenance.get("engine") or {}).get("num_gpus")

    def per_gpu(self, candidate: Candidate) -> float | None:
        """Predicted goodput of `candidate` for each GPU, requests per second."""
        num_gpus = self.gpus_of(candidate)
        if num_gpus is None or candidate.predicted is None:
            return None
        return float(candidate.predicted["goodput_rps"]) / num_gpus

    def to_dict(self) -> dict[str, Any]:
        """Plain data; each candidate's figures are called what they are (`evidence`)."""
        plain = {"schema_version": SCHEMA_VERSION, **asdict(self), "note": self.evidence.note}
        plain["num_gpus"] = self.num_gpus
        plain["misses"] = without_nan(self.misses)
        both = {"default": self.default, "recommended": self.recommended}
        plain["goodput_per_gpu_rps"] = {name: self.per_gpu(c) for name, c in both.items()}
        plain |= {name: c.to_dict(self.evidence) for name, c in both.items()}
        plain["candidates"] = [c.to_dict(self.evidence) for c in self.candidates]
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Results:
        """What `to_dict` wrote. Raises `ResultsError` for another schema version."""
        if plain.get("schema_version") != SCHEMA_VERSION:
            raise ResultsError(
                f"results are of schema version {plain.get('schema_version')}, this Stallfree "
                f"reads {SCHEMA_VERSION}; run the study again with --fresh"
            )
        try:
            known = {f.name: plain[f.name] for f in fields(cls)}
            known["verdict"] = Verdict(known["verdict"])
            known["misses"] = {name: or_inf(v) for name, v in known["misses"].items()}
            evidence = known["evidence"] = Evidence(known["evidence"])
            for name in ("default", "recommended"):
                known[name] = Candidate.from_dict(known[name], evidence)
            known["candidates"] = [Candidate.from_dict(c, evidence) for c in known["candidates"]]
            return cls(**known)
        except (KeyError, TypeError, ValueError) as error:
            raise ResultsError(
                f"results.json is damaged ({error!r}); run again with --resume"
            ) from error


@dataclass(frozen=True)
class RunFolder:
    """Names and life of one run folder."""

    path: Path

    @property
    def study_file(self) -> Path:
        return self.path / "study.yaml"

    @property
    def trace(self) -> Path:
        return self.path / "trace.parquet"

    @property
    def trace_report(self) -> Path:
        return self.path / "trace.json"

    @property
    def database(self) -> Path:
        return self.path / "study.db"

    def side_database(self, side: str) -> Path:
        """trials of a search of one side of a verdict"""
        return self.path / f"search-{side}.db"

    @property
    def profile(self) -> Path:
        return self.path / "profile"

    @property
    def replicas(self) -> Path:
        return self.path / "replicas"

    @property
    def model(self) -> Path:
        """the model's config.json, where a rehearsal needs a copy"""
        return self.path / "model"

    @property
    def results_file(self) -> Path:
        return self.path / "results.json"

    @property
    def bundle(self) -> Path:
        return self.path / "bundle"

    @property
    def lock_file(self) -> Path:
        return self.path / ".lock"

    def derived(self, name: str) -> Path:
        return self.path / "derived" / f"{name}.json"

    def base_of(self, study_file: Path) -> Path:
        """Where the paths in `study_file`, which may be the copy in here, start from."""
        return self.base if study_file == self.study_file else study_file.parent.resolve()

    def begin(self, text: str, facts: dict[str, str], *, resume: bool, fresh: bool) -> None:
        """Make the folder the own one of the study in `text`, or check that it already is.

        `facts` are the study's `fingerprint`, and the `base` that its paths start from. `fresh`
        removes what an earlier run left. Raises `ResultsError` when the folder holds a run and
        neither is set, or holds another study's run.
        """
        marker, fingerprint = self.path / "run.json", facts["fingerprint"]
        if fresh and marker.exists():
            self._clear()
        if marker.exists():
            known = read_json(marker)
            if known.get("fingerprint") != fingerprint:
                raise ResultsError(
                    f"{self.path} holds a run of a study with other traffic, engine, SLOs, search "
                    "space or windows; give --fresh to start again or another --out"
                )
            if not resume:
                raise ResultsError(
                    f"{self.path} already holds a run of this study; give --resume to go on with "
                    "it or --fresh to start again"
                )
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            write_text(self.study_file, text)
            write_json(marker, {"schema_version": SCHEMA_VERSION, **facts})

    @property
    def base(self) -> Path:
        """Where the paths in the study's copy start from."""
        marker = self.path / "run.json"
        known = read_json(marker) if marker.exists() else {}
        return Path(known.get("base", self.path.resolve()))

    def _clear(self) -> None:
        """Remove a run's own files and no others; the study's copy is about to be replaced."""
        kept = ("run.json", "trace.parquet", "study.db", "results.json", "verdict.json")
        for name in (*kept, "trace.json", "state.json", "stop", "worker.log"):
            (self.path / name).unlink(missing_ok=True)
        for database in self.path.glob("search-*.db"):
            database.unlink()
        for name in ("profile", "replicas", "confirm", "bundle", "derived"):
            shutil.rmtree(self.path / name, ignore_errors=True)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder; the lock goes when the process does. Raises `ResultsError` if held."""
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            handle = try_lock(self.lock_file)
        if handle is None:
            raise ResultsError(
                f"{self.path} is in use by another run; wait for it or give another --out"
            )
        with handle:
            yield

    def save_results(self, results: Results) -> None:
        with writing(self.path):
            self.forget("derived")
            write_json(self.results_file, results.to_dict())
        self.forget("derived")  # what was kept meanwhile is of the results before

    def load_results(self) -> Results:
        """The finished run's outcome. Raises `ResultsError` when there is none."""
        path = self.results_file
        if not path.exists():
            raise ResultsError(
                f"{self.path} holds no finished run (no results.json); run `stallfree tune`, "
                "with --resume if it was interrupted"
            )
        return Results.from_dict(read_json(path))

    def save_verdict(self, verdict: Mapping[str, Any]) -> None:
        """Keep what `stallfree verdict` found, in place of an earlier one."""
        with writing(self.path):
            write_json(self.path / "verdict.json", {"schema_version": VERDICT_VERSION, **verdict})

    def load_verdict(self) -> dict[str, Any] | None:
        """What `save_verdict` kept, or None. Raises `ResultsError` for another schema version."""
        path = self.path / "verdict.json"
        if not path.exists():
            return None
        plain = read_json(path)
        if plain.get("schema_version") != VERDICT_VERSION:
            raise ResultsError(
                f"{path} is of schema version {plain.get('schema_version')}, this Stallfree reads "
                f"{VERDICT_VERSION}; run `stallfree verdict` again"
            )
        return plain

    def forget(self, part: Literal["bundle", "confirm", "derived"]) -> None:
        """Remove what an earlier state of the run exported, every replay that is kept, or what was
        computed from the results."""
        shutil.rmtree(self.path / part, ignore_errors=True)

    def save_replay(self, key: str, round_: int, replay: SavedReplay) -> None:
        """Keep one replay of the configuration called `key`."""
        replay.save(self._replay(key, round_))

    def load_replay(self, key: str, round_: int) -> SavedReplay | None:
        """What `save_replay` kept, or None."""
        return SavedReplay.load(self._replay(key, round_))

    def _replay(self, key: str, round_: int) -> Path:
        return self.path / "confirm" / key / str(round_)


def find_runs(root: Path) -> list[Path]:
    """Folders directly under `root`, or `root` itself, that hold a finished run; by name."""
    if (root / "results.json").exists():
        return [root]
    return sorted(path.parent for path in root.glob("*/results.json"))
