"""What /proc says of a server: memory, descriptors and processor time of its process group.

A server may be several processes (nbd-server has one a connection), so all is summed over the
group. Processes that have ended count in their parent's times of waited-for children.
"""

import os
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
