"""An engine with a KV connector: the compiled kernel against its slow twin, and single rules."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pytest
from block_tables import Seq
from transfer_reference import TransferReference

from profiler.engine_config import EngineConfig
from profiler.traffic.trace import Trace
from tuner.simulator.difftest.compare import MODEL, first_difference
from tuner.simulator.difftest.transfer_cases import (
    Move,
    TransferCase,
    compare_transfers,
    random_transfer_case,
    run_transfer_kernel,
    run_transfer_other,
)
from tuner.simulator.difftest.transfer_search import search_transfer_differences
from tuner.simulator.state import ALL_DONE, NUM_PREEMPTIONS, NUM_STEPS
from tuner.simulator.transfer_arrays import FAILED

CASES = 240


@pytest.mark.parametrize("seed", range(CASES))
def test_kernel_does_what_the_reference_does(seed: int) -> None:
    """Requests, tokens, preemptions, free blocks and all three queues at every step; then the
    times of tokens and transfers."""
    case = random_transfer_case(seed)
    rows, state, status = run_transfer_kernel(case)
    theirs, jobs = run_transfer_other(
        case, TransferReference, len(rows) + (1 if status == ALL_DONE else 0)
    )
    difference = first_difference(rows, theirs)
    assert difference is None, f"case {seed}, {case.role} {case.policy} {case.config}\n{difference}"
    if status != ALL_DONE or (case.role == "kv_producer" and case.config.async_scheduling):
        return  # dropped tokens: the loop keeps the time of the first try
    progress, stage = state.progress, state.transfers.moves.stage  # type: ignore[union-attr]
    for job in jobs:
        if stage[job.number] == FAILED:
            assert not job.token_s
            assert np.isnan(progress.first_token_s[job.number])
            continue
        np.testing.assert_allclose(progress.first_token_s[job.number], job.token_s[0], rtol=1e-9)
        np.testing.assert_allclose(progress.finish_s[job.number], job.token_s[-1], rtol=1e-9)


@pytest.mark.parametrize("seed", range(0, CASES, 3))
def test_quiet_steps_change_nothing(seed: int) -> None:
    """Without the record, pure decode phases are run in one go; the results are the same."""
    case = random_transfer_case(seed)
    _, slow, _ = run_transfer_kernel(case)
    _, fast, _ = run_transfer_kernel(case, record=False)
    assert fast.tally.counts[NUM_STEPS] == slow.tally.counts[NUM_STEPS]
    for name in ("first_token_s", "finish_s", "admitted_s"):
        a, b = getattr(slow.progress, name), getattr(fast.progress, name)
        np.testing.assert_array_equal(a, b, err_msg=name)


def test_cases_cover_every_rule() -> None:
    """The comparison above means something only when the rare rules are reached."""
    seen = Counter[str]()
    for seed in range(CASES):
        case = random_transfer_case(seed)
        rows, state, _ = run_transfer_kernel(case)
        assert state.transfers is not None
        moves = state.transfers.moves
        loaded = ~np.isnan(moves.start_s)
        fails = loaded & (moves.fails == 1)
        seen["preempted"] += int(state.tally.counts[NUM_PREEMPTIONS])
        seen["loaded"] += int(loaded.sum())
        seen["hits before a load"] += int((loaded & (moves.hit_tokens > 0)).sum())
        seen["failed"] += int((moves.stage == FAILED).sum())
        if case.policy == "recompute":
            seen["recomputed"] += int((fails & (moves.hit_tokens == 0)).sum())
            seen["recomputed in part"] += int((fails & (moves.hit_tokens > 0)).sum())
        seen["several wait with KV"] += any(len(row.holding) > 2 for row in rows)
        seen["held"] += int(np.isfinite(moves.end_s[moves.hands_over == 1]).sum())
    assert seen["preempted"] > 1000
    assert seen["loaded"] > 1000
    assert min(seen.values()) >= 10, seen


class Unreserved(TransferReference):
    def _reserved(self) -> int:
        return 0


class Unfenced(TransferReference):
    def _fenced(self) -> bool:
        return False


class FreedAtOnce(TransferReference):
    def _release(self, seq: Seq) -> None:
        self.moves[seq.number] = dataclasses.replace(self.moves[seq.number], hands_over=False)
        super()._release(seq)


class KeepsTheLastToken(TransferReference):
    def _preempt(self) -> Seq:
        drops, self.drops = self.drops, False
        victim = super()._preempt()
        self.drops = drops
        return victim


class NotCountedAsPresent(TransferReference):
    def _threshold(self) -> int:
        with_kv, self.with_kv = self.with_kv, []
        threshold = super()._threshold()
        self.with_kv = with_kv
        return threshold


class HashedWhenTheLoadStarts(TransferReference):
    def _load(self, seq: Seq) -> bool:
        started = super()._load(seq)
        if started:
            self._hash_blocks(seq, len(seq.prompt))
        return started


@pytest.mark.parametrize(
    "wrong",
    [
        Unreserved,
        Unfenced,
        FreedAtOnce,
        KeepsTheLastToken,
        NotCountedAsPresent,
        HashedWhenTheLoadStarts,
    ],
)
def test_a_wrong_rule_is_found(wrong: type[TransferReference]) -> None:
    assert any(
        compare_transfers(random_transfer_case(seed), wrong)[0] is not None
        for seed in range(4 * CASES)
    )


def test_a_difference_is_cut_to_the_first_requests_that_show_it() -> None:
    found = search_transfer_differences(FreedAtOnce, range(CASES))
    assert found.differs
    assert "differs; shrunk to" in found.text
    assert "hands_over=True" in found.text


CONFIG = EngineConfig(
    max_num_batched_tokens=32,
    max_num_seqs=1,
    block_size=16,
    max_model_len=256,
    enable_prefix_caching=False,
    async_scheduling=False,
)
SOON_S = 1e-4


def one_engine(
    prompts: list[int], moves: list[Move], role: str, outputs: list[int]
) -> TransferCase:
    trace = Trace.build(np.zeros(len(prompts)), prompts, outputs)
    return TransferCase(CONFIG, trace, 17, None, role=role, moves=tuple(moves))


def test_the_last_prompt_token_is_computed_again() -> None:
    case = one_engine([64], [Move(True, False, False, SOON_S)], "kv_consumer", [2])
    rows, state, _ = run_transfer_kernel(case)
    assert [row.scheduled for row in rows] == [[(0, 1, 63)], [(0, 1, 64)]]
    assert state.transfers is not None
    assert state.transfers.moves.end_s[0] == pytest.approx(MODEL.frontend_in_s + SOON_S)


def test_a_load_does_not_start_while_the_slots_are_full_and_holds_none() -> None:
    far = [Move(True, False, False, SOON_S), Move(True, False, False, 100.0)]
    rows, state, _ = run_transfer_kernel(one_engine([40, 64], far, "kv_consumer", [3, 1]))
    assert rows[0].running == [0]
    assert rows[0].holding == [1]  # started before the first one took the only slot
    near = [Move(False, False, False, 0.0), Move(True, False, False, SOON_S)]
    rows, state, _ = run_transfer_kernel(one_engine([20, 64], near, "kv_consumer", [3, 1]))
    assert [row.waiting for row in rows[:2]] == [[1], [1]]
    assert state.transfers is not None
    assert state.transfers.moves.start_s[1] == state.progress.finish_s[0]


def test_blocks_are_held_until_they_are_sent() -> None:
    """Eight of sixteen blocks are on their way when the second prompt wants nine."""
    moves = [Move(False, True, False, 1.0), Move(False, True, False, SOON_S)]
    rows, state, _ = run_transfer_kernel(one_engine([128, 144], moves, "kv_producer", [1, 1]))
    assert rows[3].free == 8
    first, second = state.progress.finish_s[0], state.progress.admitted_s[1]
    assert second == pytest.approx(first + 1.0)
