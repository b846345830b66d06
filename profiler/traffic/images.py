"""`Images`: where the images of every prompt are, how long they are and which are the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from profiler.errors import TraceError
from profiler.traffic.checks import IntArray, whole_numbers
from profiler.traffic.ragged import cut_segments, take_segments

NO_SUCH_ORDER = "images of a prompt must be in order, inside it and not overlap"


@dataclass(frozen=True, eq=False)
class Images:
    """M images of N prompts, request after request; their tokens are part of the prompts."""

    start: IntArray
    """(M,) position in the prompt of the image's first token."""
    tokens: IntArray
    """(M,) tokens, at least 1; images with the same identity have equally many."""
    identity: IntArray
    """(M,) equal for equal images: a hash or a number, nothing else is known of it."""
    offsets: IntArray
    """(N + 1,) request i owns images offsets[i] up to offsets[i + 1]."""

    @classmethod
    def build(
        cls,
        start: npt.ArrayLike,
        tokens: npt.ArrayLike,
        identity: npt.ArrayLike,
        offsets: npt.ArrayLike,
    ) -> Images:
        """Check all rules but those about the prompts, which `Trace.build` checks.

        Raises
        ------
        TraceError
            A rule is broken; the message names the first image that breaks it.
        """
        rows = whole_numbers("images.offsets", offsets, None)
        num = int(rows[-1]) if rows.size else 0
        if rows.size == 0 or rows[0] != 0 or (np.diff(rows) < 0).any():
            raise TraceError("images.offsets must rise from 0 to the number of images")
        made = cls(
            whole_numbers("images.start", start, num),
            whole_numbers("images.tokens", tokens, num),
            whole_numbers("images.identity", identity, num),
            rows,
        )
        made._check()
        return made

    @classmethod
    def of_rows(cls, rows: Sequence[Sequence[tuple[int, int, int]]]) -> Images:
        """From one list of (start, tokens, identity) per request."""
        flat = np.array([image for row in rows for image in row], np.int64).reshape(-1, 3)
        offsets = np.cumsum([0, *(len(row) for row in rows)])
        return cls.build(flat[:, 0], flat[:, 1], flat[:, 2], offsets)

    def _check(self) -> None:
        if self.num and self.tokens.min() < 1:
            where = int(np.argmin(self.tokens))
            raise TraceError(
                f"an image must have at least 1 token; image {where} has {self.tokens[where]}"
            )
        _, which = np.unique(self.identity, return_inverse=True)
        most = np.zeros(self.num, dtype=np.int64)
        np.maximum.at(most, which, self.tokens)
        other = most[which] != self.tokens
        if other.any():
            where = int(np.argmax(other))
            raise TraceError(
                f"equal images must have equally many tokens; identity {self.identity[where]} has "
                f"{self.tokens[where]} and {most[which[where]]}: give them two identities"
            )

    @property
    def num(self) -> int:
        """Number of images."""
        return len(self.start)

    @property
    def owner(self) -> IntArray:
        """(M,) request of each image."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    def check_inside(self, prompt_tokens: IntArray) -> None:
        """TraceError unless the images fit prompts of these (N,) lengths."""
        if len(self.offsets) != len(prompt_tokens) + 1:
            raise TraceError(
                f"images are given for {len(self.offsets) - 1} requests, the trace has "
                f"{len(prompt_tokens)}; give an empty list where a prompt has none"
            )
        end, owner = self.start + self.tokens, self.owner
        before = np.concatenate(([0], end[:-1])) if self.num else end
        first = np.concatenate(([True], owner[1:] != owner[:-1])) if self.num else end
        bad = (self.start < np.where(first, 0, before)) | (end > prompt_tokens[owner])
        if bad.any():
            where = int(np.argmax(bad))
            raise TraceError(
                f"{NO_SUCH_ORDER}; request {owner[where]} ({prompt_tokens[owner[where]]} prompt "
                f"tokens) has an image from {self.start[where]} to {end[where]}"
            )

    def take(self, index: IntArray) -> Images:
        """The images of requests `index`, in that order."""
        at, offsets = take_segments(np.arange(self.num), self.offsets, index)
        return Images(self.start[at], self.tokens[at], self.identity[at], offsets)

    def within(self, prompt_tokens: IntArray) -> Images:
        """The images that end within prompts shortened to these (N,) lengths."""
        fits = self.start + self.tokens <= prompt_tokens[self.owner]
        kept = np.bincount(self.owner[fits], minlength=len(prompt_tokens))
        at, offsets = cut_segments(np.arange(self.num), self.offsets, kept)
        return Images(self.start[at], self.tokens[at], self.identity[at], offsets)

    def figures(self, prompt_tokens: IntArray) -> dict[str, float]:
        """Images, distinct ones, requests with any; their tokens, and the share of the prompts."""
        tokens = float(self.tokens.sum())
        return {
            "num_images": float(self.num),
            "num_distinct": float(np.unique(self.identity).size),
            "num_requests": float((np.diff(self.offsets) > 0).sum()),
            "tokens": tokens,
            "max_tokens": float(self.tokens.max(initial=0)),
            "token_share": tokens / float(prompt_tokens.sum()),
        }
