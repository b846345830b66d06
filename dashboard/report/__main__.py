"""`python -m dashboard.report RUNFOLDER -o FILE`, as `stallfree report` starts it."""

from __future__ import annotations

import argparse
from pathlib import Path

from dashboard.report.section import Reported
from dashboard.report.write import report
from tuner.cli.app import guarded
from tuner.cli.console import RichUi, compile_simulator, print_json, stdout
from tuner.export.from_results import RECOMMENDED, picked
from tuner.results import RunFolder
from tuner.whole_files import write_text, writing


def main() -> None:
    """Write the report and print where it is. Raises `StallfreeError` subclasses."""
    parser = argparse.ArgumentParser(prog="stallfree report")
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--pick", default=RECOMMENDED)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    folder = RunFolder(given.folder)
    results = folder.load_results()
    picked(results, given.pick)  # said before the work
    compile_simulator(fleet=results.fleet is not None)
    text = report(Reported(folder, results, given.pick), RichUi())
    with writing(given.out):
        write_text(given.out, text)
    if given.json:
        print_json({"report": str(given.out), "bytes": len(text.encode())})
        return
    stdout.print(f"Report: {given.out}", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    guarded(main)
