"""What our own decoder has seen so far, for all unfinished translations, and how it goes on from there.

Computes what transformers computes, but keeps the source's keys and values once for each sentence instead of once for
each unfinished translation, and moves caches between two buffers instead of allocating them anew at every step.
Sentences that began together are a group with caches of its own; whatever does not depend on what came before, which is
most of the work, is done for all groups at once. Knows nothing of encoders, projections or scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
import torch.nn.functional as F

from lacuna.models.fast_step import FastDecoder

# Caches grow by so many tokens at a time.
_GROWTH = 16


class FastMemory:
    """What a :class:`FastDecoder` has seen so far, for all rows."""

    def __init__(self, decoder: FastDecoder, encoded: torch.Tensor, mask: torch.Tensor) -> None:
        self._decoder = decoder
        self._groups = [_Group(decoder, encoded, mask)]

    def begin(self, start_ids: Sequence[int]) -> torch.Tensor:
        """Decode the forced start, one row for each sentence; give the keys."""
        [group] = self._groups
        same = torch.arange(group.rows, device=group.device)
        steps = [self.step(same, torch.full_like(same, token)) for token in start_ids]
        return steps[-1]

    def join(self, other: FastMemory) -> None:
        """Take over the rows of another memory, after these."""
        self._groups += other._groups

    def step(self, rows: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """Go on with ``tokens`` after ``rows``, which are in the order of the groups; give the keys."""
        counts = self._select(rows)
        decoder, groups = self._decoder, self._groups
        x = _joined(decoder.embed(part, group.length) for part, group in zip(tokens.split(counts), groups, strict=True))
        for number in range(len(decoder.layers)):
            x = self._run_layer(number, x, counts)
        for group in groups:
            group.length += 1
        return x if decoder.final_norm is None else decoder.final_norm(x)

    def _select(self, rows: torch.Tensor) -> list[int]:
        """Make ``rows`` the rows of all groups, drop those that have none, and tell how many each one has now."""
        if len(self._groups) == 1:
            self._groups[0].select(rows)
            return [len(rows)]
        ends = torch.tensor([group.rows for group in self._groups], device=rows.device).cumsum(0)
        owners = torch.searchsorted(ends, rows, right=True)
        counts = owners.bincount(minlength=len(ends)).tolist()
        kept, first = [], 0
        for group, part in zip(self._groups, rows.split(counts), strict=True):
            before = group.rows
            if len(part):
                group.select(part - first)
                kept.append(group)
            first += before
        self._groups = kept
        return [count for count in counts if count]

    def _run_layer(self, number: int, x: torch.Tensor, counts: list[int]) -> torch.Tensor:
        layer = self._decoder.layers[number]

        def read_own(y: torch.Tensor) -> torch.Tensor:
            made = layer.own.query_key_value(y).view(len(y), 3, layer.own.heads, -1)
            parts = zip(self._groups, made.split(counts), strict=True)
            return layer.own.out(_joined(group.read_own(number, part) for group, part in parts))

        def read_source(y: torch.Tensor) -> torch.Tensor:
            parts = zip(self._groups, layer.cross.query(y).split(counts), strict=True)
            return layer.cross.out(_joined(group.read_source(number, part) for group, part in parts))

        def think(y: torch.Tensor) -> torch.Tensor:
            return layer.fc2(layer.activation(layer.fc1(y)))

        blocks: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (read_own, read_source, think)
        for block, norm in zip(blocks, layer.norms, strict=True):
            x = x + block(norm(x)) if self._decoder.norm_first else norm(x + block(x))
        return x


class _Group:
    """The caches of sentences that began together, so that all their rows are equally long.

    :param encoded: (sentences, source, width).
    :param mask: Where a source has tokens: (sentences, source).
    """

    def __init__(self, decoder: FastDecoder, encoded: torch.Tensor, mask: torch.Tensor) -> None:
        self._sources = [
            [_heads(part, layer.cross.heads) for part in layer.cross.key_value(encoded).chunk(2, -1)]
            for layer in decoder.layers
        ]  # keys and values: (sentences, heads, source, head) each
        self._mask = None if bool(mask.all()) else mask.bool()[:, None, None, :]  # (sentences, 1, 1, source)
        self._owners = torch.arange(len(mask), device=mask.device)  # the sentence of each row
        self._sentences = len(mask)
        self.length = 0
        heads = decoder.layers[0].own.heads
        shape = (2, len(mask), heads, 0, encoded.shape[-1] // heads)
        self._own = [encoded.new_empty(shape) for _ in decoder.layers]  # (keys and values, rows, heads, room, head)
        self._spare = encoded.new_empty(0)

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(self._owners)

    @property
    def device(self) -> torch.device:
        """Where they are."""
        return self._owners.device

    def read_own(self, number: int, made: torch.Tensor) -> torch.Tensor:
        """Let each row look at what it wrote so far: ``(rows, width)``.

        :param number: Of the layer.
        :param made: The new token's query, key and value; the last two are kept: (rows, 3, heads, head).
        """
        cache = self._own[number]
        cache[:, :, :, self.length] = made[:, 1:].transpose(0, 1)
        keys, values = cache[:, :, :, : self.length + 1]
        return F.scaled_dot_product_attention(made[:, 0, :, None], keys, values).flatten(1)

    def read_source(self, number: int, queries: torch.Tensor) -> torch.Tensor:
        """Let each row look at its source: ``(rows, width)`` in and out; each sentence's rows stand together."""
        keys, values = self._sources[number]
        split = queries.view(self._sentences, -1, keys.shape[1], keys.shape[-1]).transpose(1, 2)
        read = F.scaled_dot_product_attention(split, keys, values, attn_mask=self._mask)
        return read.transpose(1, 2).reshape(len(queries), -1)

    def select(self, rows: torch.Tensor) -> None:
        """Make ``rows`` the rows of all caches, with room for a token more."""
        if self.length == self._own[0].shape[3]:
            self._own = [F.pad(cache, (0, 0, 0, _GROWTH)) for cache in self._own]
        if len(rows) == len(self._owners) and torch.equal(rows, torch.arange(len(rows), device=rows.device)):
            return
        for number, cache in enumerate(self._own):
            chosen = self._room((2, len(rows), *cache.shape[2:]), cache)
            torch.index_select(cache, 1, rows, out=chosen)
            # What one layer leaves behind is where the next one goes.
            self._own[number], self._spare = chosen, cache
        owners = self._owners[rows]
        if not torch.equal(owners, self._owners):
            self._select_sentences(owners)

    def _room(self, shape: tuple[int, ...], like: torch.Tensor) -> torch.Tensor:
        needed = torch.Size(shape).numel()
        if self._spare.numel() < needed:
            return like.new_empty(shape)
        return self._spare.view(-1)[:needed].view(shape)

    def _select_sentences(self, owners: torch.Tensor) -> None:
        """Keep the sentences that still have rows; where those are not equally many, give each row its own copy."""
        kept = owners.unique_consecutive()
        if len(owners) % len(kept) or not torch.equal(owners, kept.repeat_interleave(len(owners) // len(kept))):
            kept = owners
        if len(kept) != self._sentences or not torch.equal(kept, torch.arange(len(kept), device=kept.device)):
            self._sources = [[part[kept] for part in parts] for parts in self._sources]
            self._mask = None if self._mask is None else self._mask[kept]
        self._sentences = len(kept)
        self._owners = torch.arange(len(kept), device=kept.device).repeat_interleave(len(owners) // len(kept))


def _joined(parts: Iterable[torch.Tensor]) -> torch.Tensor:
    """Put the rows of all groups together; mostly there is but one."""
    listed = list(parts)
    return listed[0] if len(listed) == 1 else torch.cat(listed)


def _heads(x: torch.Tensor, heads: int) -> torch.Tensor:
    """Split ``(batch, length, width)`` into ``(batch, heads, length, head)``, laid out for reading."""
    split: torch.Tensor = x.unflatten(-1, (heads, -1)).transpose(1, 2).contiguous()
    return split
