"""A comparison as plain data for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tuner.fidelity.run import Fidelity, Scored
from tuner.fidelity.score import GROUPS, Pair, by_group, errors_of, repeats


def to_dict(found: Fidelity) -> dict[str, Any]:
    """`dense`, `all`, `planner` and `planner_dense` of the scored half at the top, of the others
    under their names."""
    return {
        "source": found.source,
        "num_rows": len(found.rows.rows),
        "left_out": dict(sorted(found.rows.left_out.items())),
        **totals(found.scored),
        "fitted": totals(found.fitted),
        "reverse": totals(found.reverse),
        "unfitted": totals(found.unfitted),
        "with_contradicting": {
            "dense": _errors(dense(found.contradicting)),
            "all": _errors(found.contradicting),
        },
        "repeats": _errors(repeats(found.rows.rows)),
        "groups": {
            name: {
                value: {"ours": errors.to_dict(), "planner": planner[value].to_dict()}
                for value, errors in by_group(found.scored.pairs, group).items()
                for planner in (by_group(found.scored.planner, group),)
            }
            for name, group in GROUPS.items()
        },
        "rows": [
            {"id": row.id, "half": row.half, "ttft_s": pair.ttft_s, "tpot_s": pair.tpot_s}
            for row, pair in (*found.fitted.pairs, *found.scored.pairs)
        ],
    }


def totals(scored: Scored) -> dict[str, Any]:
    """Errors over all rows and over dense models, ours and the planner's."""
    return {
        "dense": _errors(dense(scored.pairs)),
        "all": _errors(scored.pairs),
        "planner": _errors(scored.planner),
        "planner_dense": _errors(dense(scored.planner)),
    }


def dense(pairs: Sequence[Pair]) -> list[Pair]:
    """Those of models without experts."""
    return [pair for pair in pairs if pair[0].dense]


def _errors(pairs: Sequence[Pair]) -> dict[str, Any] | None:
    errors = errors_of(pairs)
    return None if errors is None else errors.to_dict()
