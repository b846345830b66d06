"""`stallfree profile`: a step-latency model, measured on an engine or predicted for a GPU; or the
link between prefill and decode engines, measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.options import TraceOption, UncheckedOption

_GPU = "Without a GPU (--silicon)"


def profile(
    study: Annotated[
        Path | None, typer.Argument(help="Study file (YAML); none with --silicon or --kv-link.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="Longest time to measure, for example 90s or 5m.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Folder (with --kv-link a file); default: profile in the study's run folder.",
        ),
    ] = None,
    trace: TraceOption = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the sampled batches.")] = None,
    unchecked_engine: UncheckedOption = False,
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    kv_link: Annotated[
        bool,
        typer.Option(
            "--kv-link",
            help="Measure instead how fast KV moves between two processes of this machine (NIXL).",
        ),
    ] = False,
    silicon: Annotated[
        bool,
        typer.Option(
            "--silicon",
            help="Predict from published GPU measurements instead of measuring an engine.",
            rich_help_panel=_GPU,
        ),
    ] = False,
    model: Annotated[
        str | None,
        typer.Option(help="Bundled model name, or the model's config.json.", rich_help_panel=_GPU),
    ] = None,
    system: Annotated[
        str | None, typer.Option(help="GPU, for example h200_sxm.", rich_help_panel=_GPU)
    ] = None,
    engine: Annotated[str, typer.Option(help="Engine.", rich_help_panel=_GPU)] = "vllm",
    tp: Annotated[int, typer.Option(min=1, help="Tensor-parallel GPUs.", rich_help_panel=_GPU)] = 1,
    weight_dtype: Annotated[
        str,
        typer.Option(
            help="bfloat16, fp8, fp8_block, nvfp4, ...; auto: the checkpoint's.",
            rich_help_panel=_GPU,
        ),
    ] = "auto",
    kv_dtype: Annotated[
        str, typer.Option(help="bfloat16 or fp8; auto: the engine's.", rich_help_panel=_GPU)
    ] = "auto",
    expert_parallel: Annotated[
        bool,
        typer.Option(
            "--expert-parallel", help="Spread experts over the GPUs.", rich_help_panel=_GPU
        ),
    ] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Engine setting that is not left to the engine; repeat for more.",
            rich_help_panel=_GPU,
        ),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TERM",
            help="Leave out a term added to kernel time, for example host_s or graph_padding; "
            "fitted: the constants fitted to published end-to-end runs.",
            rich_help_panel=_GPU,
        ),
    ] = None,
    calibrate: Annotated[
        Path | None,
        typer.Option(
            help="Measured profile of that GPU to correct the prediction with.",
            rich_help_panel=_GPU,
        ),
    ] = None,
) -> None:
    """Measure the engine's steps (or predict them), fit the latency model, and report its error.

    With a study: starts the engine. The report says how far predictions were off on steps left out
    of the fit, region by region, and which regions were not sampled.

    With --silicon: no engine, no GPU. Published kernel times of a model on a GPU become a profile
    like any other, for `tune --profile`, `simulate --latency-model` and studies; the report says
    how far the tables are from their source. Example:

    stallfree profile --silicon --model meta-llama/Meta-Llama-3.1-70B --system h200_sxm --tp 4

    With --kv-link: real transfers of several sizes, made as vLLM's NIXL connector makes them, and
    fitted to latency + bytes / bandwidth; the file can be named wherever a link is (see
    `stallfree links`). UCX_ variables of the environment choose the transport, for example
    UCX_TLS=tcp,self.
    """
    from profiler.errors import StudyError
    from tuner.cli.console import RichUi, print_json, run_folder, stdout
    from tuner.cli.durations import seconds
    from tuner.cli.heldout import print_profile
    from tuner.cli.link_profile import profile_link
    from tuner.cli.predict import SiliconRequest, predict_from_options
    from tuner.search.stages import measure, save_profile
    from tuner.study import build_trace, load_study, overridden

    if kv_link:
        if silicon or study is not None:
            raise StudyError("--kv-link measures the link alone; leave the study and --silicon out")
        profile_link(out, json)
        return
    if silicon and study is None:
        request = SiliconRequest(
            model=model,
            system=system,
            engine=engine,
            tp=tp,
            weight_dtype=weight_dtype,
            kv_dtype=kv_dtype,
            expert_parallel=expert_parallel,
            settings=tuple(settings or ()),
            without=tuple(without or ()),
            calibrate=calibrate,
        )
        measured, place = predict_from_options(request, out, RichUi())
    elif study is not None and not silicon:
        wanted = None if budget is None else seconds(budget)
        changes = {
            "traffic.path": trace,
            "search.seed": seed,
            "profile.budget_s": wanted,
            "engine.unchecked": unchecked_engine or None,
        }
        checked = overridden(load_study(study), changes)
        place = out if out is not None else run_folder(None, checked.name).profile
        measured = measure(checked, build_trace(checked), RichUi())
    else:
        raise StudyError("give a study, --silicon with --model and --system, or --kv-link")
    save_profile(measured, place)
    if json:
        report = measured.report.to_dict()
        print_json({"profile": str(place), "facts": measured.facts, "report": report})
        return
    print_profile(measured, stdout)
    stdout.print(f"Profile: {place}", highlight=False, soft_wrap=True)
