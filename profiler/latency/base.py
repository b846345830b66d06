"""`StepTimeModel`: a fitted step-latency model with its residuals, sampled region and facts.

`profiler.latency.fit.fit_step_time` makes one from step samples; `load_latency_model` reads one
from a file or by the name of a shipped example. Prediction goes through the compiled functions of
`profiler.latency.step_time`, the same that the simulator calls.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from profiler.errors import LatencyModelError, OutsideSampledError
from profiler.latency.params import (
    GRID,
    NO_TABLE,
    NO_TABLES,
    SCALARS,
    StepTables,
    StepTimeParams,
)
from profiler.latency.region import SampledRegion, columns_of
from profiler.latency.step_time import BatchColumns, fill_times
from profiler.steps import StepSamples

FloatArray = npt.NDArray[np.float64]
SCHEMA_VERSION = 1
EXAMPLES = Path(__file__).resolve().parent / "examples"


@dataclass(frozen=True)
class StepTimeModel:
    """Batch shape -> seconds at the profile's reference speed of the machine."""

    params: StepTimeParams
    """what the compiled functions need"""
    frontend_in_s: float
    """from the client's send to the request being visible to the scheduler, at an idle engine"""
    frontend_out_s: float
    """from the output of a step to the token at the client"""
    residuals: FloatArray
    """(J,) quantiles of measured / predicted step interval, mean 1; drawn by the simulator"""
    region: SampledRegion
    """where steps were sampled"""
    facts: dict[str, Any] = field(default_factory=dict)
    """where it came from"""

    def device_s(self, samples: StepSamples) -> FloatArray:
        """(S,) predicted device seconds, without host time."""
        return self._times(samples, overlapped=False)[:, 0]

    def predict(
        self, samples: StepSamples, *, overlapped: bool = False, strict: bool = False
    ) -> FloatArray:
        """(S,) predicted step intervals, seconds.

        Parameters
        ----------
        overlapped
            True with asynchronous scheduling.
        strict
            Refuse batches outside the sampled region instead of leaving them to `outside`.

        Raises
        ------
        OutsideSampledError
            `strict`, and at least one batch lies outside.
        """
        if strict:
            self.require_inside(samples)
        return self._times(samples, overlapped=overlapped)[:, 1]

    def outside(self, batches: StepSamples | BatchColumns) -> npt.NDArray[np.bool_]:
        """(S,) True for each batch outside the sampled region."""
        columns = columns_of(batches) if isinstance(batches, StepSamples) else batches
        return self.region.outside(columns)

    def require_inside(self, samples: StepSamples) -> None:
        """Raise `OutsideSampledError` naming the first batch outside the sampled region."""
        outside = self.outside(samples)
        if outside.any():
            i = int(np.argmax(outside))
            raise OutsideSampledError(
                f"{int(outside.sum())} of {samples.num_steps} steps lie outside the sampled "
                f"region, first {int(samples.prefill_tokens[i])} prompt tokens with "
                f"{int(samples.num_decodes[i])} decodes of {int(samples.decode_context[i])} tokens "
                "of context in all; profile with traffic that reaches it"
            )

    def with_frontend(self, frontend_in_s: float, frontend_out_s: float) -> StepTimeModel:
        """The same with these front-end delays."""
        return replace(self, frontend_in_s=frontend_in_s, frontend_out_s=frontend_out_s)

    def with_facts(self, **facts: Any) -> StepTimeModel:
        """The same with further facts."""
        return replace(self, facts={**self.facts, **facts})

    def _times(self, samples: StepSamples, *, overlapped: bool) -> FloatArray:
        out = np.empty((samples.num_steps, 2))
        fill_times(self.params, columns_of(samples), samples.num_running, overlapped, out)
        return out

    def save(self, path: Path) -> None:
        """Write as JSON; numbers keep all their digits."""
        table = self.params.table
        params = self.params._asdict()
        params["table"] = table.tolist() if table.size else None
        params["tables"] = _tables_to_dict(self.params.tables)
        data = {
            "schema_version": SCHEMA_VERSION,
            "params": params,
            "frontend_in_s": self.frontend_in_s,
            "frontend_out_s": self.frontend_out_s,
            "residuals": self.residuals.tolist(),
            "region": self.region.to_dict(),
            "facts": self.facts,
        }
        path.write_text(json.dumps(data, indent=1, allow_nan=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> StepTimeModel:
        """Read what `save` wrote.

        Raises
        ------
        LatencyModelError
            The file is missing, damaged, or of another schema version.
        """
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            if data["schema_version"] != SCHEMA_VERSION:
                raise LatencyModelError(
                    f"{path} has schema version {data['schema_version']}, this version reads "
                    f"{SCHEMA_VERSION}; profile again"
                )
            return cls(
                params=_params_from(data["params"]),
                frontend_in_s=float(data["frontend_in_s"]),
                frontend_out_s=float(data["frontend_out_s"]),
                residuals=np.array(data["residuals"], dtype=np.float64),
                region=SampledRegion.from_dict(data["region"]),
                facts=dict(data["facts"]),
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise LatencyModelError(
                f"no latency model can be read from {path} ({error!r}); give the step_time.json "
                "of a profile"
            ) from error


def _params_from(data: dict[str, Any]) -> StepTimeParams:
    table = NO_TABLE
    if data["table"] is not None:
        table = np.array(data["table"], dtype=np.float64).reshape(3, GRID + 1, GRID)
    optional = {"encoder_token_s": 0.0}  # given by hand; no profile measures it
    scalars = {n: float((optional | data)[n]) for n in SCALARS}
    return StepTimeParams(table=table, tables=_tables_from(data["tables"]), **scalars)


def _tables_to_dict(tables: StepTables) -> dict[str, Any] | None:
    if not tables.decode_step_s.size:
        return None
    return {name: array.tolist() for name, array in tables._asdict().items()}


def _tables_from(data: dict[str, Any] | None) -> StepTables:
    if data is None:
        return NO_TABLES
    arrays = {n: np.array(data[n], dtype=np.float64) for n in StepTables._fields}
    size = arrays["attention_s"].shape[-1]
    arrays["attention_s"] = arrays["attention_s"].reshape(4, size + 1, size)
    return StepTables(**arrays)


def load_latency_model(name_or_path: str | Path) -> StepTimeModel:
    """A shipped example by its name, or the model in a file (or in a profile's folder).

    Raises
    ------
    LatencyModelError
        Neither such a name nor such a file, or the file cannot be used.
    """
    return StepTimeModel.load(latency_model_file(name_or_path))


def latency_model_file(name_or_path: str | Path) -> Path:
    """Where the latency model is that `load_latency_model` would read. Raises as it does."""
    shipped = {p.stem: p for p in EXAMPLES.glob("*.json")}
    path = shipped.get(str(name_or_path), Path(name_or_path))
    if path.is_dir():
        path = path / "step_time.json"
    if not path.exists():
        raise LatencyModelError(
            f"no latency model {str(name_or_path)!r}: neither a file nor one of "
            f"{', '.join(sorted(shipped))}; give a profile's step_time.json"
        )
    return path
