#!/usr/bin/python3
"""destage next to what people use today, in one page of Markdown.

First the front end: 4 KiB random writes over a Unix socket against nbdkit, nbd-server and qemu-nbd,
all on the same tmpfs (speed.py). Then the cache: an array of emulated disks without it, and with
it under LRW, WOW and STOW (emulated.py). Rounds have everything once, in turn; medians and ratios.
A peer that is not installed is left out, and that is said.

    python3 tests/conformance/compare_peers.py --out peers.md
    python3 tests/conformance/compare_peers.py --quick    # one short round: does it still work?
"""

import argparse
import datetime
import os
import platform
import time
from pathlib import Path

import emulated
import figures
import speed
from harness import HERE, Failure, Skip, end_on_sigterm, need, say

POLICIES = ["lrw", "wow", "stow"]


def processor():
    """The processor's model."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith(("model name", "Model")):
            return line.partition(":")[2].strip()
    return platform.machine()


def machine():
    """Date and machine, without its name."""
    said = speed.versions()
    peers = [said[name] for name in ("fio", *speed.PEERS) if name in said]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return (f"{datetime.date.today().isoformat()}; {processor()}, {os.cpu_count()} processors, "
            f"{memory:.0f} GiB; Linux {platform.release()}; {', '.join(peers)}.")


def front_end(options):
    """Servers side by side on tmpfs."""
    made = argparse.Namespace(destage=options.destage, seconds=options.seconds, shm=options.shm,
                              size=options.size, disk_dir=None, disk_only=False)
    commands = speed.batching(made)
    if commands is None:
        raise Failure(f"{options.destage}: no destage with `bench` there; make build")
    rounds = speed.Round(made, commands)
    for done in range(1, options.rounds + 1):
        rounds.run()
        say(f"front end: round {done} of {options.rounds} done")
    return rounds


def cache(options):
    """The array with and without its cache."""
    made = emulated.Options(options.destage, policies=POLICIES, speed=options.disk_speed,
                            iops=options.iops, warm=options.warm, measured=options.measured,
                            warm_no_cache=options.warm_no_cache, footprint=options.footprint,
                            folder=options.shm)
    return made, emulated.rounds_of(made, options.disk_rounds, figures.Figures())


def page(options, took, rounds, made, disks):
    """Everything as Markdown."""
    lines = [
        f"`make compare-peers`, {machine()} Medians over rounds, in each "
        f"of which everything runs once, in turn: {options.rounds}, and {options.disk_rounds} "
        f"of the emulated disks. {took / 60:.0f} minutes in all.",
        "",
        f"Front end: 4 KiB random writes over {speed.written(options)} MiB, each page written "
        f"before, Unix socket, all data on tmpfs, {options.seconds} s each. *Held*: an NVS that "
        "holds what is written; *destaging*: RAID-5 over three files, an NVS of half of it. fio's "
        "NBD engine:",
        "",
        figures.markdown(rounds.fio, speed.PEERS),
        "",
        "The same by `destage bench`, which sends many requests at once:",
        "",
        figures.markdown(rounds.bench, speed.PEERS),
        "",
        rounds.calm.text(),
        "",
    ]
    lines += [f"Left out: {name} ({reason})." for name, reason in rounds.skipped.items()]
    lines += [""] if rounds.skipped else []
    at_speed = "" if made.speed == 1 else (
        f" The disks ran at {made.speed:g} times their speed; figures are in their own time.")
    lines += [
        f"The cache: RAID-5 over five emulated 10,000 rpm disks (`{emulated.SPEC}`), "
        f"{made.footprint} MiB loaded, NVS of {made.nvs_pages:,} pages of 4 KiB, measured for "
        f"{made.measured:g} s after {made.warm:g} s of load ({made.warm_no_cache:g} s without "
        f"cache).{at_speed} The SPC-1-like load is an open loop: an array that answers all that "
        "is requested might answer more, and one that does not has a growing queue.",
        "",
        figures.markdown(disks, [emulated.NO_CACHE]),
    ]
    return "\n".join(lines) + "\n"


def missing(rounds, disks, made):
    """What should be there and is not: a table with holes is not a result."""
    wanted = [(rounds.fio, f"{shape[0]}: writes/s", who)
              for shape in speed.SHAPES for who in speed.OURS]
    wanted += [(rounds.bench, f"{shape[0]}: writes/s", who)
               for shape in speed.SHAPES for who in speed.OURS]
    peers = [peer for peer in speed.PEERS if peer not in rounds.skipped]
    if not peers:
        return ["any peer: none is installed (make nbd-tools)"]
    wanted += [(rounds.fio, f"{speed.SHAPES[0][0]}: writes/s", peer) for peer in peers]
    wanted += [(disks, f"{emulated.title(made, load)}: answered/s", who)
               for load in made.loads for who in [emulated.NO_CACHE, *made.policies]]
    return [f"{measure} of {who}" for table, measure, who in wanted
            if not table.median(measure, who)]


def arguments():
    parser = argparse.ArgumentParser(description="destage next to its peers.")
    parser.add_argument("--destage", type=Path, default=HERE.parents[1] / "target/release/destage")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the page there")
    parser.add_argument("--quick", action="store_true", help="one short round of everything")
    parser.add_argument("--rounds", type=int, default=3, help="of the front end")
    parser.add_argument("--seconds", type=int, default=3, help="of each measurement there")
    parser.add_argument("--size", type=int, default=512, metavar="MIB", help="of the exports")
    parser.add_argument("--disk-rounds", type=int, default=3, help="of the emulated disks")
    parser.add_argument("--disk-speed", type=float, default=4, metavar="K",
                        help="speed-up of the disks over real ones")
    parser.add_argument("--iops", type=float, default=1300, help="offered by the SPC-1-like load")
    parser.add_argument("--shm", type=Path, default=Path("/dev/shm"), help="a tmpfs")
    options = parser.parse_args()
    options.destage = options.destage.resolve()
    options.warm, options.warm_no_cache, options.measured = 60, 10, 40
    options.footprint = 1024
    if options.quick:
        options.rounds = options.disk_rounds = options.seconds = 1
        options.size, options.disk_speed, options.footprint = 64, 20, 256
        options.warm, options.measured, options.iops = 20, 20, 500
    return options


def main():
    options = arguments()
    end_on_sigterm()
    began = time.monotonic()
    try:
        need("fio", options.destage)
        rounds = front_end(options)
        made, disks = cache(options)
    except (Skip, Failure) as reason:
        say(f"compare_peers: {reason}")
        return 1
    text = page(options, time.monotonic() - began, rounds, made, disks)
    if options.out:
        options.out.write_text(text, encoding="utf-8")
    say("\n" + text)
    holes = missing(rounds, disks, made)
    for hole in holes:
        say(f"compare_peers: no figure: {hole}")
    return 1 if holes else 0


if __name__ == "__main__":
    raise SystemExit(main())
