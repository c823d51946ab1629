"""WOW (FAST'05) in Python: destages the same groups in the same order as the built-in ``wow``."""

from bisect import bisect_left, insort

from destage.policy import DestagePolicy, Nvs, PageWrite, PolicyContext


class Wow(DestagePolicy):
    """CSCAN order with a recency bit for each group."""

    def __init__(self, context: PolicyContext) -> None:
        self.ring: list[int] = []  # Groups held, by address.
        self.recent: dict[int, bool] = {}  # Written again since the pointer passed.
        self.pointer = 0

    def on_write(self, write: PageWrite) -> None:
        if write.created:
            insort(self.ring, write.group)
            self.recent[write.group] = False
        elif write.existed and (write.page_hit or not write.sequential):
            self.recent[write.group] = True

    def pick(self, nvs: Nvs) -> int:
        for _ in range(2 * len(self.ring)):
            at = bisect_left(self.ring, self.pointer) % len(self.ring)
            group = self.ring[at]
            self.pointer = group + 1
            if not nvs.may_pick(group):
                continue
            if not self.recent[group]:
                del self.ring[at], self.recent[group]
                return group
            self.recent[group] = False
        raise LookupError("no group of the ring may be picked")

    def candidate(self, nvs: Nvs) -> int | None:
        at = bisect_left(self.ring, self.pointer)
        return self.ring[at % len(self.ring)] if self.ring else None
