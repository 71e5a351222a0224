"""A model of TensorFlow's best-fit-with-coalescing (BFC) allocator.

It shows how much memory a tensor really takes, and when memory is left in pieces that are too
small. The rules are those of TensorFlow's `bfc_allocator.cc`: Sizes are multiples of 256 bytes. The
allocator takes the smallest free chunk that fits. It splits the chunk only if the chunk is at least
twice as large as the request, or at least 128 MiB larger. It takes memory from the device in
regions of doubling size. Therefore a tensor may take up to twice its size.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass

GRANULE_BYTES = 256
MOST_WASTED_BYTES = 128 * 2**20
FIRST_REGION_BYTES = 2 * 2**20


@dataclass(eq=False, slots=True)
class Chunk:
    """A contiguous part of a region; there is a gap between the addresses of two regions."""

    address: int
    size: int
    free: bool = True
    before: Chunk | None = None
    after: Chunk | None = None


class BFC:
    """Allocates and frees chunks by the rules of TensorFlow's allocator.

    Attributes:
        in_use_bytes: Total size of the chunks in use, which is what TensorFlow reports.
        pool_bytes: Total size of the regions taken from the device.
    """

    def __init__(self, limit_bytes: int | None = None) -> None:
        self.in_use_bytes = self.pool_bytes = 0
        self._limit_bytes = limit_bytes
        self._region_bytes = FIRST_REGION_BYTES
        self._next_address = 0
        self._free: list[tuple[int, int, Chunk]] = []  # sizes and addresses, in ascending order

    def allocate(self, size_bytes: int) -> Chunk:
        """Allocates a chunk.

        Raises:
            MemoryError: If the chunk does not fit within the limit.
        """
        size = -(-max(size_bytes, 1) // GRANULE_BYTES) * GRANULE_BYTES
        at = bisect_left(self._free, (size,))
        if at == len(self._free):
            self._add_region(size)
            at = bisect_left(self._free, (size,))
        chunk = self._free.pop(at)[2]
        if chunk.size >= 2 * size or chunk.size - size >= MOST_WASTED_BYTES:
            rest = Chunk(chunk.address + size, chunk.size - size, True, chunk, chunk.after)
            if chunk.after is not None:
                chunk.after.before = rest
            chunk.after, chunk.size = rest, size
            self._keep(rest)
        chunk.free = False
        self.in_use_bytes += chunk.size
        return chunk

    def free(self, chunk: Chunk) -> None:
        """Frees a chunk and merges it with its free neighbours."""
        self.in_use_bytes -= chunk.size
        chunk.free = True
        for left, right in ((chunk, chunk.after), (chunk.before, chunk)):
            if left is None or right is None or not (left.free and right.free):
                continue
            self._forget(right if left is chunk else left)
            left.size += right.size
            left.after = right.after
            if right.after is not None:
                right.after.before = left
            chunk = left
        self._keep(chunk)

    def _add_region(self, size: int) -> None:
        grew = self._region_bytes < size
        while self._region_bytes < size:
            self._region_bytes *= 2
        region_bytes = self._region_bytes
        if self._limit_bytes is not None:
            region_bytes = min(region_bytes, self._limit_bytes - self.pool_bytes)
            if region_bytes < size:
                raise MemoryError
        self._keep(Chunk(self._next_address, region_bytes))
        self.pool_bytes += region_bytes
        self._next_address += region_bytes + GRANULE_BYTES
        if not grew:
            self._region_bytes *= 2

    def _keep(self, chunk: Chunk) -> None:
        insort(self._free, (chunk.size, chunk.address, chunk))

    def _forget(self, chunk: Chunk) -> None:
        del self._free[bisect_left(self._free, (chunk.size, chunk.address))]
