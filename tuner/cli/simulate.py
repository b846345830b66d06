"""`stallfree simulate`: what would these settings do, and why?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.options import UncheckedOption

StudyArgument = Annotated[
    Path | None, typer.Argument(help="Study file whose run has a profile, or a run folder.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Engine setting; repeat for more."),
]
TraceOption = Annotated[Path | None, typer.Option(help="Recorded traffic (without a study).")]
ModelOption = Annotated[
    str | None,
    typer.Option(help="step_time.json of a profile, or example-8b (without a study)."),
]
MapOption = Annotated[
    str | None,
    typer.Option("--map", help="Columns of --trace: arrival=..,prompt=..,output=..,unit=ms."),
]
BlocksOption = Annotated[int | None, typer.Option(min=2, help="KV blocks (without a study).")]
SloOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME=SECONDS,..",
        help="SLOs (without a study): ttft_p99, itl_p99, tpot_p99; e.g. ttft_p99=2,itl_p99=0.05.",
    ),
]
WindowsOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Arrival windows for intervals and chances; default the study's, else 1 (none).",
    ),
]
AcceptanceOption = Annotated[
    str | None,
    typer.Option(
        metavar="RATE",
        help="Chance that a draft token is accepted (with num_speculative_tokens), or the "
        "chances of 0, 1, ... accepted ones per step: 0.3,0.2,0.1,0.4.",
    ),
]
SeedOption = Annotated[
    int, typer.Option(min=0, help="Seed of the step-time jitter and of accepted drafts.")
]
LoadCurveOption = Annotated[
    bool,
    typer.Option(
        "--load-curve",
        help="Figures at 0.25 to 2 times the arrival rate, and the highest rate that meets the "
        "SLOs: of the engine default, a finished run's recommendation, --set and every --config.",
    ),
]
ConfigOption = Annotated[
    list[str] | None,
    typer.Option(
        "--config",
        metavar="NAME:KEY=VAL,..",
        help="One more configuration of --load-curve; repeat for more.",
    ),
]
PlotOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.html",
        help="Picture of --load-curve: one HTML file with everything in it; its camera button "
        "saves a PNG.",
    ),
]
ExplainOption = Annotated[
    str | None,
    typer.Option(
        metavar="WHAT",
        help="worst-itl, worst-ttft or request:N (counted from 1): the steps that made it.",
    ),
]
NoPlotsOption = Annotated[bool, typer.Option("--no-plots", help="Print tables only.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")]


def simulate(
    study: StudyArgument = None,
    settings: SetOption = None,
    trace: TraceOption = None,
    latency_model: ModelOption = None,
    columns: MapOption = None,
    num_kv_blocks: BlocksOption = None,
    slo: SloOption = None,
    windows: WindowsOption = None,
    acceptance: AcceptanceOption = None,
    seed: SeedOption = 0,
    unchecked_engine: UncheckedOption = False,
    load_curve: LoadCurveOption = False,
    configs: ConfigOption = None,
    plot: PlotOption = None,
    explain: ExplainOption = None,
    no_plots: NoPlotsOption = False,
    json: JsonOption = False,
) -> None:
    """Predict latency and goodput of one configuration, in seconds and without an engine.

    With a study: its traffic, profile and fixed settings, changed by --set. Without one:
    --trace and --latency-model; `stallfree knobs` lists what can be set. Shows the distributions
    of TTFT and ITL, and queue and KV use over time; --explain says why a token was late, and
    --load-curve what more or less traffic would do.
    """
    from profiler.errors import StudyError
    from tuner.cli.console import compile_simulator, stderr
    from tuner.cli.whatif import Source, parse_settings, print_case, read_case

    if not load_curve and (configs or plot is not None):
        raise StudyError("--config and --plot go with --load-curve; add it or remove them")
    if load_curve and explain is not None:
        raise StudyError("--explain goes without --load-curve; remove one of them")
    source = Source(study, trace, latency_model, columns, num_kv_blocks, slo)
    case = read_case(source, parse_settings(settings or []), seed).over_windows(windows)
    case = case.with_acceptance(acceptance)
    if note := case.unchecked_note(accept=unchecked_engine):
        stderr.print(note, highlight=False, soft_wrap=True)
    compile_simulator(case.speculates)
    if load_curve:
        from tuner.cli.load import print_load

        print_load(case, configs or [], plot, plots=not no_plots, as_json=json)
    elif explain is not None:
        from tuner.cli.explained import print_explained

        print_explained(case, explain, as_json=json)
    else:
        print_case(case, plots=not no_plots, as_json=json)
