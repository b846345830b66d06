"""How `tune` and `confirm` end: what they found, exported and printed."""

from __future__ import annotations

from tuner.cli.console import print_json, stdout
from tuner.cli.report import print_results
from tuner.export.bundle import emit_bundle
from tuner.results import Results, RunFolder


def export_and_print(folder: RunFolder, results: Results, target: str, *, as_json: bool) -> None:
    """Export the recommended configuration for `target`, and print the results.

    A target that cannot have it is said and no error, for the run has not been in vain.
    """
    refusal = emit_bundle(folder, results, target)
    if as_json:
        print_json({**results.to_dict(), "bundle": None if refusal else str(folder.bundle)})
        return
    print_results(results, stdout)
    where = f"No bundle: {refusal}" if refusal else f"Bundle: {folder.bundle}"
    stdout.print(where, highlight=False, soft_wrap=True)
