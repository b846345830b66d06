"""`stallfree`: commands, and what a failure looks like."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperGroup

from profiler.errors import StallfreeError
from tuner.cli.confirm import confirm
from tuner.cli.dashboard import dashboard
from tuner.cli.difftest import difftest
from tuner.cli.export import export
from tuner.cli.fidelity import fidelity
from tuner.cli.gate import gate
from tuner.cli.knobs import knobs
from tuner.cli.links import links
from tuner.cli.profile import profile
from tuner.cli.report_file import report
from tuner.cli.show import show
from tuner.cli.simulate import simulate
from tuner.cli.tune import tune
from tuner.cli.verdict import verdict
from tuner.cli.watch import watch
from tuner.cli.worker import worker

_INTERRUPTED = 130


class _Traffic(TyperGroup):
    """The traffic commands; their module is heavy, and loaded when one of them is named."""

    def list_commands(self, ctx: Any) -> list[str]:
        return self._real().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return self._real().get_command(ctx, cmd_name)

    def _real(self) -> TyperGroup:
        from tuner.cli.traffic import traffic_app

        group = typer.main.get_group(traffic_app)
        assert isinstance(group, TyperGroup)
        return group


app = typer.Typer(
    name="stallfree",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Find, prove and export the chunked-prefill settings that meet your TTFT and ITL targets "
    "on your traffic. Start with: stallfree tune STUDY.yaml",
)
for command in (
    tune,
    profile,
    simulate,
    confirm,
    show,
    export,
    report,
    gate,
    watch,
    knobs,
    links,
    dashboard,
    worker,
    difftest,
    fidelity,
    verdict,
):
    app.command()(command)
app.add_typer(
    typer.Typer(
        cls=_Traffic,
        no_args_is_help=True,
        help="Examine, make and convert traces of requests (times and lengths).",
    ),
    name="traffic",
)


def main() -> None:
    """Run the command that was asked for, see `guarded`."""
    guarded(app)


def guarded(command: Callable[[], object]) -> None:
    """Run `command`; exit 2 with one line on stderr for what a user can mend (an engine's log tail
    below it), 130 on Ctrl-C."""
    try:
        command()
    except StallfreeError as error:
        print(f"error: {error}", file=sys.stderr)
        for note in getattr(error, "__notes__", ()):  # the tail of an engine's log
            print(note, file=sys.stderr)
        sys.exit(2)
    except SystemExit as stop:
        if stop.code == _INTERRUPTED:
            print(
                "interrupted: what was finished is kept; go on with "
                "`stallfree tune STUDY --resume`",
                file=sys.stderr,
            )
        raise
