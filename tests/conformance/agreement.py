#!/usr/bin/python3
"""Holds the simulator to what is served: an array on emulated disks, and its simulation.

RAID-5 over five `destage emulate`, served under a load that `destage trace record` records from
the first request on. `destage sim --as served` then replays the recording, closed for a closed
loop and at its recorded times for an open one, with the same warm-up and measured window. The
disks may run faster than real ones (`--disk-speed`); all figures are in the disks' own time.

    python3 tests/conformance/agreement.py --rounds 3 --trace vm.vscsi.gz
"""

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
from pathlib import Path

from emulated import Bed, Options, SPEC, hurry, in_rounds, options_of_all
from harness import HERE, Failure, end_on_sigterm, run, say, wait_until

# Greatest difference of served and simulated, as a share: requests per second of a closed loop,
# mean response time of an open one.
CLOSED, OPEN = 0.05, 0.15
DEPTH = 32
# Shares of the limit of the SPC-1-like load: the rate at which its mean response time is 20 ms.
SHARES = (60, 90)
TRACES = Path(os.environ.get("DESTAGE_TRACES", HERE.parents[2] / "shared/traces"))
# Seconds of the trace around its first burst, with its times this many times faster. The burst is
# 141 MiB in a second: at more than the disks' own speed, processors would limit what is served.
TRACE, TRACE_FROM, TRACE_UNTIL = "cloudPhysicsIO.vscsi.gz", 1700, 2100
TRACE_SPEED, TRACE_DISKS = 4, 1


KEYS = ("uniform", "hotcold", *(f"spc1-{share}" for share in SHARES), "trace")


class Load:
    """A load, and how it is served and simulated."""

    def __init__(self, key, name, words, closed, speed, footprint=None):
        self.key, self.name, self.words, self.closed = key, name, words, closed
        # Speed-up of its disks over real ones.
        self.speed = speed
        # MiB at the start of the volume that it uses; the disks are as small as these need.
        self.footprint = footprint

    def times(self, given):
        """Seconds of load before measuring, and of measuring, in the disks' own time."""
        trace = (1, (TRACE_UNTIL - TRACE_FROM) / TRACE_SPEED - 1)
        return trace if self.key == "trace" else (given.warm, given.measured)


class Beds(Bed):
    """Disks as large as the load needs."""

    def __init__(self, options, footprint):
        super().__init__(options)
        self.footprint = footprint

    def disk_size(self):
        return super().disk_size() if self.footprint else None


def limit(given, nvs_pages):
    """At which rate the SPC-1-like load has a mean response time of 20 ms, simulated."""
    said = run(given.destage, "compare", "--as", "served", "--policies", given.policy, "--nvs",
               nvs_pages, "--disk", SPEC, "--sweep", "iops=600..1600..50", "--at-ms", "20",
               "--format", "json", timeout=600)
    found = json.loads(said)["at_response"][0]["iops"]
    if not found:
        raise Failure("the SPC-1-like load has no mean of 20 ms between 600 and 1,600 per second")
    return found


def loads(given, nvs_pages):
    """The loads; those of which the trace is not here are left out, with a word."""
    # An open loop asks for what is due. On one connection its requests would wait for the 64 MiB
    # that the server takes from each.
    speed, wide = given.disk_speed, ["--depth", 16384, "--connections", 16]
    closed = ["--closed", "--depth", DEPTH]
    found = [
        Load("uniform", f"uniform writes, depth {DEPTH}",
             ["--workload", "uniform", *closed], True, speed, 1024),
        Load("hotcold", f"hot/cold writes, depth {DEPTH}",
             ["--workload", "hotcold", *closed], True, speed, 1024),
    ]
    most = limit(given, nvs_pages) if any("spc1" in key for key in given.loads) else 0
    for share in SHARES:
        iops = most * share / 100
        found.append(Load(f"spc1-{share}", f"SPC-1-like, {share} % of its limit: {iops:,.0f}/s",
                          ["--workload", f"spc1:iops={iops * speed}", *wide], False, speed))
    trace = given.trace or TRACES / TRACE
    if trace.exists():
        name = f"{trace.name}, {TRACE_FROM} to {TRACE_UNTIL} s, {TRACE_SPEED} x"
        words = ["--trace", trace, "--speed", TRACE_SPEED * TRACE_DISKS, *wide]
        found.append(Load("trace", name, words, False, TRACE_DISKS))
    elif "trace" in given.loads:
        say(f"agreement: SKIPPED the real trace: {trace} is not here")
    unknown = set(given.loads) - set(KEYS)
    if unknown:
        raise Failure(f"--loads: {', '.join(unknown)}; there are {', '.join(KEYS)}")
    return [load for load in found if load.key in given.loads]


@contextlib.contextmanager
def recording(given, folder, into):
    """Records what the array is asked, until the end of the block."""
    words = [given.destage, "trace", "record", "peer", "--out", into, "--force", "--config-dir",
             folder]
    log = open(folder / "record.log", "wb")
    process = subprocess.Popen([str(word) for word in words], stdout=log, stderr=log,
                               stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        yield
        process.send_signal(signal.SIGINT)
        process.wait(60)
        # The server completes the file.
        wait_until(into.exists, 60)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        log.close()
    recorded = (folder / "record.log").read_text()
    if not into.exists():
        raise Failure(f"nothing was recorded: {recorded}")
    if "earlier than recorded" in recorded:
        raise Failure(f"the recording has other times than the load: {recorded}")


def served(given, bed, uri, load, into):
    """The figures of the served array, and what it was asked in `into`."""
    speed = load.speed
    status = json.loads(run(given.destage, "status", "peer", "--config-dir", bed.folder,
                            "--format", "json"))
    warm, measured = load.times(given)
    words = ["bench", uri, "--format", "json", "--warmup", f"{warm / speed}s", "--time",
             f"{measured / speed}s", *load.words]
    if load.footprint:
        words += ["--size", f"{load.footprint}M"]
    elif "--trace" in load.words:
        piece = bed.folder / "piece.dtrc"
        part = ["--trace-from", f"{TRACE_FROM}s", "--trace-until", f"{TRACE_UNTIL}s"]
        at = words.index("--trace") + 1
        run(given.destage, "trace", "convert", *part, words[at], piece)
        words[at] = piece
        words += ["--wrap", "on"]
    with recording(given, bed.folder, into):
        seconds = (warm + measured) / speed + 120
        said = json.loads(run(given.destage, *words, timeout=seconds))
    # The last ones may be due just when the time is up.
    if said["not_begun"] > said["requests"] / 1000:
        raise Failure(f"{load.name}: the array could not keep up: {said['not_begun']} requests "
                      "had not begun at the end")
    answered = sum(row["requests"] for row in said["kinds"])
    total = sum(row["requests"] * row["mean_us"] for row in said["kinds"])
    # A trace may end before the time is up.
    return {"rate": said["requests"] / said["time_s"] / speed,
            "mean": total / answered / 1000 * speed}, status


def simulated(given, load, recorded, status):
    """The figures of the simulation of what was recorded."""
    # A closed loop that is answered faster than it was recorded must not run out of requests.
    warm, measured = load.times(given)
    measured *= 0.5 if load.closed else 1
    words = ["sim", "--as", "served", "--format", "json", "--disk", SPEC, "--policy", given.policy,
             "--nvs", status["nvs_pages"], "--disk-fraction", f"{status['volume_bytes'] >> 10}K",
             "--trace", recorded, "--warmup", warm, "--measure", measured]
    mode = ["closed:32"] if load.closed else ["open", "--trace-speed", 1 / load.speed]
    said = json.loads(run(given.destage, *words, "--trace-mode", *mode, timeout=300))
    return {"rate": said["iops"], "mean": said["response"]["all"]["mean_ms"]}


def one(given, load):
    """A round of one load: what was served, and what is simulated of it."""
    options = Options(given.destage, speed=load.speed, nvs=given.nvs,
                      footprint=load.footprint or 1024)
    with Beds(options, load.footprint) as bed:
        recorded = bed.folder / "load.dtrc.zst"
        real, status = bed.serve(given.policy, lambda uri: served(given, bed, uri, load, recorded),
                                 "--reply-memory", "1G")
        return real, simulated(given, load, recorded, status)


def row(load, rounds):
    """Medians over the rounds, and whether the figure that is held is near enough."""
    cells, differences = [], {}
    for what, unit in (("rate", 0), ("mean", 1)):
        real = statistics.median(real[what] for real, _ in rounds)
        model = statistics.median(model[what] for _, model in rounds)
        apart = (real[what] / model[what] - 1 for real, model in rounds)
        differences[what] = statistics.median(apart)
        cells += [f"{real:,.{unit}f}", f"{model:,.{unit}f}", f"{differences[what]:+.1%}"]
    held, most = (differences["rate"], CLOSED) if load.closed else (differences["mean"], OPEN)
    return [load.name, *cells], abs(held) <= most


def arguments():
    parser = argparse.ArgumentParser(description="Served on emulated disks, and simulated.")
    options_of_all(parser, disk_speed=2, warm=40)
    parser.add_argument("--policy", default="stow")
    parser.add_argument("--loads", default=",".join(KEYS))
    parser.add_argument("--trace", type=Path,
                        help=f"the real trace [default: {TRACE} in DESTAGE_TRACES]")
    parser.add_argument("--nvs", type=int, metavar="MIB", default=70, help="size of the NVS device")
    given = parser.parse_args()
    given.destage = given.destage.resolve()
    given.loads = given.loads.split(",")
    return given


HEAD = ["load", "served/s", "simulated/s", "difference", "served, mean ms", "simulated, mean ms",
        "difference"]


def main():
    given = arguments()
    end_on_sigterm()
    hurry()
    try:
        # Pages that an NVS device of this size holds: 90 % of it are for pages.
        found = [(load, []) for load in loads(given, given.nvs * 256 * 9 // 10)]
        for number, (load, rounds) in in_rounds(given.rounds, found):
            rounds.append(one(given, load))
            say(f"round {number} of {given.rounds}: {' | '.join(row(load, rounds[-1:])[0])}")
    except Failure as reason:
        say(f"agreement: {reason}")
        return 1
    rows = [row(load, rounds) for load, rounds in found]
    say("| " + " | ".join(HEAD) + " |\n" + "|---" * len(HEAD) + "|")
    for cells, _ in rows:
        say("| " + " | ".join(cells) + " |")
    apart = [cells[0] for cells, near in rows if not near]
    say(f"more than {CLOSED:.0%} apart in rate (closed loops) or {OPEN:.0%} in mean response time "
        f"(open loops): {', '.join(apart) or 'none'}")
    return 1 if apart else 0


if __name__ == "__main__":
    raise SystemExit(main())
