"""`stallfree watch`: is a deployed configuration still the right one?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def watch(
    study: Annotated[
        Path, typer.Argument(help="Study file whose run has finished, or its folder.")
    ],
    traffic: Annotated[
        Path, typer.Option(help="Recorded traffic of now: CSV, JSONL, JSON or Parquet.")
    ],
    columns: Annotated[
        str | None,
        typer.Option("--map", help="Its columns: arrival=..,prompt=..,output=..,unit=ms."),
    ] = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL|FILE",
            help="The engine's Prometheus metrics over the time of that traffic: an address "
            "(http://HOST:8000/metrics) or a saved scrape. Twice: the scrape at the start of the "
            "traffic, then the one at its end.",
        ),
    ] = None,
    engine_version: Annotated[
        str | None,
        typer.Option(help="Version that runs; default: what a metrics address tells at /version."),
    ] = None,
    worth: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=1.0,
            help="Drifted traffic is no reason to tune again while the configuration meets the "
            "SLOs and gives this share of the reachable goodput; with 1, any drift is.",
        ),
    ] = 0.97,
    trials: Annotated[
        int, typer.Option(min=1, help="Configurations to try for what is reachable.")
    ] = 32,
    retune: Annotated[
        bool,
        typer.Option(
            "--retune",
            help="If a re-tune is due, run it: the same study on the new traffic, begun with the "
            "earlier best configurations, in a run folder of its own.",
        ),
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Run folder of --retune; default <run folder>-retune-N.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Say whether traffic, engine or version have drifted from a study, and what that costs.

    Traffic: arrival rate, lengths of prompts and outputs and prefix sharing, of all requests and
    of each class. A drift is large (15 %; 5 points of sharing) and beyond chance (resampled
    bursts and all; together at most 5 % false alarms). The traffic is taken as it is, for one
    replica: of the study's traffic section only share and the length caps apply.

    Engine: vLLM's histograms of TTFT, ITL and end-to-end latency against the latency model's for
    the recommended configuration on this traffic. A counter holds everything since the server
    started, so give a scrape from the start of the traffic too unless the server is as young.

    Price: what the recommended configuration gives on the new traffic, what a short search around
    it finds, and the engine time of a new study.

    Exit code: 0 fine, 1 re-tune, 2 error. From a CronJob:

    stallfree watch runs/chat --traffic today.parquet --metrics http://vllm:8000/metrics --json
    """
    from profiler.engines import start_engine
    from tuner.cli.after import column_map, read_scrapes, read_version_of, start_retune
    from tuner.cli.after_tables import print_watched
    from tuner.cli.console import RichUi, compile_simulator, find_run, print_json, stdout
    from tuner.drift.watch import WatchOptions, new_study, new_traffic
    from tuner.drift.watch import watch as compare
    from tuner.search.kept import load_kept

    ui = RichUi()
    run = load_kept(study, find_run(study))
    changed = new_study(run.study, traffic, column_map(columns))
    trace = new_traffic(changed)
    options = WatchOptions(
        metrics=read_scrapes(metrics or []),
        version=engine_version or read_version_of(metrics or []),
        worth=worth,
        trials=trials,
    )
    compile_simulator(bool(run.study.fixed.num_speculative_tokens))
    found = compare(run, trace, options, ui)
    started = None
    if not json:
        print_watched(found, stdout)
    if retune and found.retune:
        started = start_retune(run, changed, found, out, ui, start_engine)
    if json:
        print_json({**found.to_dict(), "new_run": None if started is None else str(started)})
    if found.retune:
        raise typer.Exit(1)
