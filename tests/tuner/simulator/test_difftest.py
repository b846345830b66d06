"""The differential test finds wrong schedulers and shrinks what it finds."""

from __future__ import annotations

from typing import Any

import pytest
from encoder_cache import Picture
from reference import Reference, Seq

from tuner.simulator.difftest.cases import random_case, random_image_case
from tuner.simulator.difftest.compare import compare
from tuner.simulator.difftest.search import search_differences
from tuner.simulator.difftest.shrink import shrink


class NoWatermark(Reference):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.limits = self.limits._replace(watermark_blocks=0)


class NoLoneException(Reference):
    def _threshold(self) -> int:
        return self.limits.threshold


class HeadsFreedFirst(Reference):
    def _release(self, seq: Seq) -> None:
        self.pool.release(seq.blocks)
        seq.blocks, seq.num_hashed = [], 0


class HitsTheWholePrompt(Reference):
    def _keys(self, seq: Seq, tokens: int) -> list[tuple[int, ...]]:
        at_admission = tokens == len(seq.tokens) - 1 and seq not in self.running
        return super()._keys(seq, tokens + at_admission)


class LastVictimOfEquals(Reference):
    def _preempt(self) -> Seq:
        self.running.reverse()
        victim = super()._preempt() if self.limits.priority else None
        self.running.reverse()
        return victim or super()._preempt()


class NewestImageEvicted(Reference):
    def _admit(self, out: dict[Seq, int], threshold: int) -> None:
        self.encoder_cache.idle.reverse()
        super()._admit(out, threshold)


class ImagesNotInBlockKeys(Reference):
    def _keys(self, seq: Seq, tokens: int) -> list[tuple[int, ...]]:
        size = self.limits.block_size
        return [tuple(seq.tokens[:end]) for end in range(size, tokens + 1, size)]


class CutsInsideImages(Reference):
    def _encode(self, seq: Seq, computed: int, n: int) -> tuple[int, list[Picture]]:
        got, wanted = super()._encode(seq, computed, n)
        return min(n, got + 1), wanted


class DrafterReadsNoImages(Reference):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.limits = self.limits._replace(reads_ahead=0)


@pytest.mark.parametrize(
    "wrong", [NewestImageEvicted, ImagesNotInBlockKeys, CutsInsideImages, DrafterReadsNoImages]
)
def test_a_wrong_rule_for_images_is_found(wrong: type[Reference]) -> None:
    found = search_differences(wrong, range(60), random_image_case)
    assert found.differs
    assert "images [(" in found.text


def test_the_right_rules_for_images_have_no_difference() -> None:
    found = search_differences(Reference, range(100), random_image_case)
    assert not found.differs, found.text
    assert "chunks cut at an image" in found.text


class NoLookahead(Reference):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.limits = self.limits._replace(lookahead=0)


class FreeDraftSlots(Reference):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.limits = self.limits._replace(draft_slots=0)


class KeepsTheLastHit(Reference):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.limits = self.limits._replace(drops_hit=False)


class NeverPads(Reference):
    def _padded(self, seq: Seq, hit: int, out: dict[Seq, int]) -> int:
        return len(seq.tokens) - hit


class KnowsTheOutputInFlight(Reference):
    def _wanted(self, seq: Seq, threshold: int) -> int:
        known = len(seq.tokens) + seq.in_flight
        return 0 if known >= len(seq.prompt) + seq.max_output else super()._wanted(seq, threshold)


@pytest.mark.parametrize(
    "wrong",
    [
        *(NoWatermark, NoLoneException, HeadsFreedFirst, HitsTheWholePrompt, LastVictimOfEquals),
        *(NoLookahead, FreeDraftSlots, KeepsTheLastHit, NeverPads, KnowsTheOutputInFlight),
    ],
)
def test_a_wrong_rule_is_found_and_shrunk(wrong: type[Reference]) -> None:
    found = search_differences(wrong, range(400))
    assert found.differs
    assert "simulator" in found.text
    assert found.text.count("request ") <= 8


def test_a_right_scheduler_has_no_difference() -> None:
    found = search_differences(Reference, range(20))
    assert not found.differs
    assert "20 cases" in found.text


def test_shrinking_keeps_the_difference() -> None:
    seed = next(s for s in range(400) if compare(random_case(s), NoLoneException)[0])
    small = shrink(random_case(seed), lambda c: compare(c, NoLoneException)[0] is not None)
    assert compare(small, NoLoneException)[0] is not None
    assert small.trace.num_requests < random_case(seed).trace.num_requests
