"""`stallfree fidelity`: predictions against measurements that others published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from tuner.fidelity.run import Fidelity
    from tuner.fidelity.score import Errors


def fidelity(
    silicon: Annotated[
        bool, typer.Option("--silicon", help="Against the published GPU measurements.")
    ] = False,
    fit: Annotated[
        bool,
        typer.Option(
            "--fit", help="Fit the constants per GPU and model again and keep them (minutes)."
        ),
    ] = False,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; default: one per core, at most 8.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Predict published end-to-end measurements of real GPUs, and say how far off.

    The package of published GPU data carries closed-loop benchmark runs of vLLM (TTFT and TPOT).
    Every run that can be predicted is simulated as it was measured. Constants per GPU and model are
    fitted on one half of the rows and scored on the other; both are printed, beside NVIDIA's own
    static estimate of the same rows, and what was left out and why. Needs stallfree[silicon].
    """
    import os

    from profiler.engines.silicon.published import require_package
    from profiler.errors import StudyError
    from tuner.cli.console import RichUi, compile_simulator, print_json, stdout
    from tuner.fidelity.report import to_dict
    from tuner.fidelity.run import run_fidelity

    if not silicon:
        raise StudyError("fidelity compares with published GPU measurements; give --silicon")
    require_package()
    compile_simulator()
    number = workers or min(8, os.cpu_count() or 1)
    found = run_fidelity(RichUi(), workers=number, fit=fit)
    if json:
        print_json(to_dict(found))
    else:
        print_fidelity(found, stdout)


_COLUMNS = ("rows", "TTFT", "median", "TPOT", "median", "planner: TTFT", "TPOT")


def print_fidelity(found: Fidelity, console: Console) -> None:
    """Totals, then by model, GPU, concurrency and engine version, then what was left out."""
    from rich.table import Table

    from tuner.fidelity.score import GROUPS, by_group

    console.print(_totals(found))
    for title, group in GROUPS.items():
        table = Table(title, *_COLUMNS, title=f"half 1 by {title}")
        planners = by_group(found.scored.planner, group)
        for name, errors in by_group(found.scored.pairs, group).items():
            table.add_row(name, *_cells(errors, planners[name]))
        console.print(table)
    left = Table("left out", "rows")
    for reason, count in sorted(found.rows.left_out.items(), key=lambda item: -item[1]):
        left.add_row(reason, str(count))
    console.print(left)
    console.print(f"Source: {found.source}", highlight=False)


def _totals(found: Fidelity) -> Table:
    from rich.table import Table

    from tuner.fidelity.report import dense
    from tuner.fidelity.score import errors_of, repeats

    table = Table("mean error", *_COLUMNS, title="predicted against measured")
    sides = (
        ("half 1, constants from half 0", found.scored),
        ("half 0, its own constants", found.fitted),
        ("half 0, constants from half 1", found.reverse),
        ("half 1, without constants", found.unfitted),
    )
    for name, side in sides:
        for kind, choose in (("dense", dense), ("all", list)):
            ours, planner = errors_of(choose(side.pairs)), errors_of(choose(side.planner))
            table.add_row(f"{name}, {kind}", *_cells(ours, planner))
    others = (
        ("half 1 with contradicting rows, dense", dense(found.contradicting)),
        ("half 1 with contradicting rows, all", found.contradicting),
        ("repeated rows, by the others", repeats(found.rows.rows)),
    )
    for name, pairs in others:
        table.add_row(name, *_cells(errors_of(pairs), None))
    return table


def _cells(ours: Errors | None, planner: Errors | None) -> list[str]:
    """Cells under the columns of `print_fidelity`; empty for what there is not."""
    cells = [""] * 7
    if ours is not None:
        figures = (ours.ttft_mape, ours.ttft_median, ours.tpot_mape, ours.tpot_median)
        cells[:5] = [str(ours.num_rows), *(f"{figure:.1%}" for figure in figures)]
    if planner is not None:
        cells[5:] = [f"{planner.ttft_mape:.1%}", f"{planner.tpot_mape:.1%}"]
    return cells
