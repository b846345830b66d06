"""`stallfree gate`: would a change of engine settings break the SLOs?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def gate(
    study: Annotated[
        Path, typer.Argument(help="Study file whose run has finished, or its folder.")
    ],
    config: Annotated[
        Path,
        typer.Option(
            help="Settings to judge: a file for `vllm serve --config`, a YAML or JSON mapping of "
            "settings, a text file with a `vllm serve` command line, or an exported bundle."
        ),
    ],
    against: Annotated[
        Path | None,
        typer.Option(help="Settings in force now, to say what the change costs or gains."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
) -> None:
    """Fail a change of engine settings that would break the SLOs; for CI, no engine needed.

    Predicts the settings in --config on the study's traffic with the run's latency model, beside
    the recommended ones. What the file leaves open is as the engine resolved it when it was
    profiled; flags that are no engine setting of `stallfree knobs` are listed as not judged. An
    illegal value, which the engine would refuse, is an error.

    Exit code: 0 meets every SLO, 1 breaks one, 2 could not be judged. In a pull request check:

    stallfree gate runs/chat --config deploy/vllm.yaml --against main/deploy/vllm.yaml
    """
    from tuner.cli.after_tables import print_gate
    from tuner.cli.console import RichUi, compile_simulator, find_run, print_json, stdout
    from tuner.gate import judge
    from tuner.search.kept import load_kept
    from tuner.settings_file import read_settings

    proposed = read_settings(config)
    current = None if against is None else read_settings(against)
    run = load_kept(study, find_run(study))
    configs = [proposed.config] + ([] if current is None else [current.config])
    compile_simulator(any(bool(c.num_speculative_tokens) for c in configs))
    found = judge(run, proposed, current, RichUi())
    if json:
        print_json(found.to_dict())
    else:
        print_gate(found, stdout)
    if not found.passes:
        raise typer.Exit(1)
