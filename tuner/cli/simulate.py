"""`stallfree simulate`: what would these settings do?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def simulate(
    study: Annotated[
        Path | None, typer.Argument(help="Study file whose run has a profile, or a run folder.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Engine setting; repeat for more."),
    ] = None,
    trace: Annotated[Path | None, typer.Option(help="Recorded traffic (without a study).")] = None,
    latency_model: Annotated[
        str | None,
        typer.Option(help="step_time.json of a profile, or example-8b (without a study)."),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option("--map", help="Columns of --trace: arrival=..,prompt=..,output=..,unit=ms."),
    ] = None,
    num_kv_blocks: Annotated[
        int | None, typer.Option(min=2, help="KV blocks (without a study).")
    ] = None,
    acceptance: Annotated[
        str | None,
        typer.Option(
            metavar="RATE",
            help="Chance that a draft token is accepted (with num_speculative_tokens), or the "
            "chances of 0, 1, ... accepted ones per step: 0.3,0.2,0.1,0.4.",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the step-time jitter and of accepted drafts.")
    ] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Predict latency and goodput of one configuration, in seconds and without an engine.

    With a study: its traffic, profile and fixed settings, changed by --set. Without one:
    --trace and --latency-model; `stallfree knobs` lists what can be set.
    """
    from profiler.errors import StudyError
    from profiler.latency.base import load_latency_model
    from profiler.traffic.columns import ColumnMap
    from profiler.traffic.readers import read_trace
    from tuner.cli.console import find_run, print_json, stdout
    from tuner.cli.whatif import (
        figures,
        from_run,
        from_trace,
        parse_settings,
        print_figures,
        with_acceptance,
    )

    chosen = parse_settings(settings or [])
    if study is not None:
        if any(x is not None for x in (trace, latency_model, columns, num_kv_blocks)):
            raise StudyError(
                "--trace, --map, --latency-model and --num-kv-blocks go without a study; remove "
                "them or the study"
            )
        case = from_run(study, find_run(study), chosen)
    elif trace is not None and latency_model is not None:
        model = load_latency_model(latency_model)
        traffic = read_trace(trace, mapping=ColumnMap.parse(columns) if columns else None).trace
        case = from_trace(traffic, model, chosen, num_kv_blocks)
    else:
        raise StudyError("give a study, or both --trace and --latency-model")
    if acceptance is not None:
        case = with_acceptance(case, acceptance)
    found = figures(case, seed)
    if json:
        print_json(found)
    else:
        print_figures(found, stdout)
