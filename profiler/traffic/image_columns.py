"""The images of a recorded prompt: a list per request, or a number of images of a given size."""

from __future__ import annotations

from typing import Any

import numpy as np

from profiler.errors import TraceError
from profiler.traffic.checks import IntArray
from profiler.traffic.columns import lengths, shown_value
from profiler.traffic.images import Images
from profiler.traffic.raw import RawTable

_WORDS = 2**64


def listed_images(table: RawTable, column: str) -> Images:
    """Images from a column with a list of [start, tokens, identity] per request.

    Raises
    ------
    TraceError
        A cell is no such list; the message names line and value.
    """
    return Images.of_rows([_image_row(table, column, row) for row in range(len(table.frame))])


def _image_row(table: RawTable, column: str, row: int) -> list[tuple[int, int, int]]:
    value: Any = table.frame[column].iat[row]
    if isinstance(value, list | np.ndarray):
        images = [tuple(image) for image in value if isinstance(image, list | np.ndarray)]
        numbers = all(isinstance(v, int | np.integer) for image in images for v in image)
        if len(images) == len(value) and numbers and all(len(image) == 3 for image in images):
            return [(int(s), int(t), _signed(int(i))) for s, t, i in images]
    raise TraceError(
        f"{table.at(row)}: {column} must be a list of [start, tokens, identity] in whole numbers, "
        f"got {shown_value(value)}; where it is a number of images, add image_tokens=TOKENS"
    )


def _signed(identity: int) -> int:
    """A 64-bit hash as a signed number."""
    return (identity + _WORDS // 2) % _WORDS - _WORDS // 2


def placed_images(
    table: RawTable, column: str, prompt_tokens: IntArray, image_tokens: int
) -> tuple[Images, str]:
    """Images from a column with their number: each of `image_tokens` tokens, one after the other
    from the start of the prompt, no two of them equal. An assumption, which the second value says.

    Images that do not fit the (N,) prompts are left out; the second value says how many.
    """
    asked = lengths(table, column)
    fit = np.minimum(asked, prompt_tokens // image_tokens)
    offsets = np.concatenate(([0], np.cumsum(fit)))
    number = np.arange(offsets[-1])
    start = (number - np.repeat(offsets[:-1], fit)) * image_tokens
    images = Images.build(start, np.full(number.size, image_tokens), number, offsets)
    note = (
        f"images: sizes and places are not recorded; each is taken as {image_tokens} tokens from "
        "the start of its prompt, no two equal"
    )
    lost = int((asked - fit).sum())
    if lost:
        note += f"; {lost} of {int(asked.sum())} do not fit their prompts and are left out"
    return images, note
