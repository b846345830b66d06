"""Where the latency model was sampled, and what lies outside.

A batch is inside when steps of its kind (decode-only, chunk-only, mixed) were sampled, each of its
features lies within the sampled range (a quarter of an octave of slack), and the pair of features
that matters most together (the axes of the table in `step_time`) lies in or next to an occupied
cell of a grid of octaves. Octaves are of 1 + x, so that 0 has a place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from profiler.engine_config import EngineConfig
from profiler.latency.step_time import (
    CHUNK_ONLY,
    DECODE_ONLY,
    MIXED,
    REGION_NAMES,
    BatchColumns,
    FloatArray,
    IntArray,
)
from profiler.steps import StepSamples

FEATURES = ("prefill_tokens", "num_prefills", "chunk_depth", "num_decodes", "decode_depth")
"""chunk_depth is attention pairs per prefill token; decode_depth is context per decode"""
SLACK_OCTAVES = 0.25
_JOINT = {DECODE_ONLY: (3, 4), CHUNK_ONLY: (0, 2), MIXED: (0, 3)}


def columns_of(samples: StepSamples) -> BatchColumns:
    """The batch shapes of `samples`."""
    return BatchColumns(*(getattr(samples, name) for name in BatchColumns._fields))


def regions_of(columns: BatchColumns) -> IntArray:
    """(S,) DECODE_ONLY, CHUNK_ONLY or MIXED."""
    kinds = np.where(columns.num_decodes == 0, CHUNK_ONLY, MIXED)
    return np.where(columns.prefill_tokens == 0, DECODE_ONLY, kinds).astype(np.int64)


def octaves_of(columns: BatchColumns) -> FloatArray:
    """(S, 5) log2(1 + x) of `FEATURES`."""
    chunk_depth = columns.attention_pairs / np.maximum(columns.prefill_tokens, 1)
    decode_depth = columns.decode_context / np.maximum(columns.num_decodes, 1)
    raw = (
        columns.prefill_tokens,
        columns.num_prefills,
        chunk_depth,
        columns.num_decodes,
        decode_depth,
    )
    octaves: FloatArray = np.log2(1.0 + np.stack(raw, axis=1))
    return octaves


def joint_cells(columns: BatchColumns) -> IntArray:
    """(S, 3) region and the octave of each of the two features that matter together there."""
    kinds, octaves = regions_of(columns), octaves_of(columns)
    pairs = np.array([_JOINT[k] for k in sorted(_JOINT)])[kinds]
    cells = np.floor(np.take_along_axis(octaves, pairs, axis=1)).astype(np.int64)
    return np.concatenate([kinds[:, None], cells], axis=1)


@dataclass(frozen=True)
class SampledRegion:
    """Filled by `SampledRegion.of`; kept with the latency model."""

    counts: tuple[int, int, int]
    """steps sampled of each kind, in the order of REGION_NAMES"""
    low: FloatArray
    """(3, 5) least log2(1 + x) of `FEATURES` by kind; inf where the kind was not sampled"""
    high: FloatArray
    """(3, 5) greatest; -inf where the kind was not sampled"""
    cells: IntArray
    """(C, 3) occupied rows of `joint_cells`"""

    @classmethod
    def of(cls, columns: BatchColumns) -> SampledRegion:
        """The region that the batches in `columns` cover."""
        kinds, octaves = regions_of(columns), octaves_of(columns)
        low, high = np.full((3, len(FEATURES)), np.inf), np.full((3, len(FEATURES)), -np.inf)
        for kind in range(3):
            rows = octaves[kinds == kind]
            if len(rows):
                low[kind], high[kind] = rows.min(axis=0), rows.max(axis=0)
        counts = np.bincount(kinds, minlength=3)
        return cls(
            counts=(int(counts[0]), int(counts[1]), int(counts[2])),
            low=low,
            high=high,
            cells=np.unique(joint_cells(columns), axis=0),
        )

    def outside(self, columns: BatchColumns) -> npt.NDArray[np.bool_]:
        """(S,) True for each batch outside the sampled region."""
        kinds, octaves = regions_of(columns), octaves_of(columns)
        below = octaves < self.low[kinds] - SLACK_OCTAVES
        above = octaves > self.high[kinds] + SLACK_OCTAVES
        known = {tuple(row) for row in self.cells.tolist()}
        near = {(k, i + a, j + b) for k, i, j in known for a in (-1, 0, 1) for b in (-1, 0, 1)}
        cells = joint_cells(columns).tolist()
        alone = np.array([tuple(row) not in near for row in cells], dtype=np.bool_)
        result: npt.NDArray[np.bool_] = np.any(below | above, axis=1) | alone
        return result

    def highest(self, feature: str, kinds: Sequence[int] = (0, 1, 2)) -> float:
        """Greatest sampled value of one of `FEATURES` over `kinds`; 0 where none was sampled."""
        greatest = self.high[list(kinds), FEATURES.index(feature)].max()
        return float(np.exp2(greatest) - 1.0) if np.isfinite(greatest) else 0.0

    def beyond(self, config: EngineConfig) -> tuple[str, ...]:
        """What steps under `config` may reach that was not sampled, one sentence each."""
        slack = 2.0**SLACK_OCTAVES
        limits = (
            ("max_num_batched_tokens", "prefill_tokens", "prompt tokens"),
            ("max_num_seqs", "num_decodes", "decodes"),
            ("max_model_len", "decode_depth", "tokens of context per decode"),
        )
        found = []
        for setting, feature, noun in limits:
            allowed, sampled = getattr(config, setting), self.highest(feature)
            if allowed is not None and feature == "num_decodes":  # drafts count like decodes
                allowed *= 1 + (config.num_speculative_tokens or 0)
            if allowed is not None and allowed > sampled * slack:
                found.append(
                    f"{setting}={getattr(config, setting)} allows steps of {allowed} {noun}; "
                    f"sampled up to {sampled:.0f}"
                )
        return tuple(found)

    def gaps(self) -> tuple[str, ...]:
        """Kinds of steps that were not sampled at all."""
        return tuple(REGION_NAMES[k] for k in range(3) if not self.counts[k])

    def to_dict(self) -> dict[str, Any]:
        finite = [bool(n) for n in self.counts]
        return {
            "counts": list(self.counts),
            "features": list(FEATURES),
            "low_octaves": [
                r.tolist() if f else None for r, f in zip(self.low, finite, strict=True)
            ],
            "high_octaves": [
                r.tolist() if f else None for r, f in zip(self.high, finite, strict=True)
            ],
            "cells": self.cells.tolist(),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> SampledRegion:
        """Inverse of `to_dict`. Raises KeyError, TypeError or ValueError for other content."""
        a, b, c = (int(n) for n in data["counts"])
        width = len(FEATURES)
        low = [np.full(width, np.inf) if r is None else r for r in data["low_octaves"]]
        high = [np.full(width, -np.inf) if r is None else r for r in data["high_octaves"]]
        return cls(
            counts=(a, b, c),
            low=np.array(low, dtype=np.float64).reshape(3, width),
            high=np.array(high, dtype=np.float64).reshape(3, width),
            cells=np.array(data["cells"], dtype=np.int64).reshape(-1, 3),
        )
