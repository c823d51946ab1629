"""What /proc says of a server and of the machine.

Memory, descriptors and processor time of a process group, and what the hypervisor took.

A server may be several processes (nbd-server has one a connection), so all is summed over the
group. Processes that have ended count in their parent's times of waited-for children.
"""

import os
import time
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def stat_fields(pid):
    """The fields of /proc/PID/stat from the third on (the second may hold blanks)."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    return text[text.rindex(")") + 2:].split()


def group(leader):
    """The living processes of a process group."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            fields = stat_fields(entry)
        except (OSError, ValueError):
            continue
        if int(fields[2]) == leader and fields[0] != "Z":
            found.append(int(entry))
    return found


def resident(leader):
    """Resident memory of the group, bytes; shared pages count once for each process."""
    total = 0
    for pid in group(leader):
        try:
            total += int(stat_fields(pid)[21]) * PAGE
        except OSError:
            pass
    return total


def descriptors(leader):
    """Open descriptors of the group."""
    total = 0
    for pid in group(leader):
        try:
            total += len(os.listdir(f"/proc/{pid}/fd"))
        except OSError:
            pass
    return total


def processor_seconds(leader):
    """User and system time of the group, seconds, with children that its members waited for."""
    ticks = 0
    for pid in group(leader):
        try:
            ticks += sum(int(field) for field in stat_fields(pid)[11:15])
        except OSError:
            pass
    return ticks / TICKS


def stolen():
    """Processor time that the hypervisor gave to others, and all processor time, in ticks."""
    times = [int(word) for word in Path("/proc/stat").read_text(encoding="ascii").split()[1:9]]
    return times[7], sum(times)


class Calm:
    """Repeats a measurement that the hypervisor disturbed, while there is time for that.

    A virtual machine's processors may be taken away from it for half of the time, and then nothing
    that was measured says anything.
    """

    #: A measurement during which more than this share of the processor time was stolen is repeated.
    MOST = 0.05

    def __init__(self, seconds):
        self.seconds = seconds
        self.repeated = 0
        #: The share that was stolen during each measurement that counts.
        self.shares = []

    def __call__(self, measure):
        while True:
            began, before = time.monotonic(), stolen()
            got = measure()
            after = stolen()
            share = (after[0] - before[0]) / max(1, after[1] - before[1])
            if share <= self.MOST or self.seconds <= 0:
                self.shares.append(share)
                return got
            self.seconds -= time.monotonic() - began
            self.repeated += 1

    def text(self):
        """One sentence, for those who read the figures."""
        worse = sum(share > self.MOST for share in self.shares)
        most = 100 * max(self.shares, default=0)
        left = f", {worse} were left, with up to {most:.0f} %" if worse else ""
        return (f"The hypervisor gave more than {100 * self.MOST:.0f} % of the processor time to "
                f"others during {self.repeated + worse} measurements: {self.repeated} were "
                f"repeated{left}.")
