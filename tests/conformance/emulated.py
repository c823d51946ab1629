#!/usr/bin/python3
"""Arrays of five emulated 10,000 rpm disks: without a cache, and with it under several policies.

RAID-5 over `destage emulate`, 4 KiB pages, an NVS of a sixteenth of what is loaded. Each array
is loaded until its cache has long been full, and then measured: uniform writes in a closed loop
(what it sustains), and an SPC-1-like load in an open loop (what it makes of a rate). Rounds have
every array once, in turn. The disks may run faster than real ones (`--disk-speed`); rates and
times are given as real disks would show them.

    python3 tests/conformance/emulated.py --rounds 3 --policies stow --loads uniform
"""

import argparse
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import wire
from figures import Figures, text_table
from harness import HERE, MIB, Failure, Skip, end_on_sigterm, run, say, tail, wait_until

DISKS = 5
SPEC = "stow-ref"
NO_CACHE = "no cache"
LOADS = ("uniform", "spc1")
# Further ones, with what `destage bench` plays.
MORE = {
    "deep": ("uniform writes, depth 128", ["--rw", "randwrite", "--depth", "128"]),
    "large": ("32 KiB writes, 32 threads",
              ["--workload", "random:threads=32,pages=8", "--depth", "32"]),
}
# Bytes of an NVS device of 64 MiB or more, as a multiple of the dirty pages that it holds.
LOG_SHARE = 70 / 64


class Options:
    """What is run, with defaults."""

    def __init__(self, binary, **more):
        self.binary = binary
        self.footprint = more.get("footprint", 1024)
        self.speed = more.get("speed", 1.0)
        self.policies = more.get("policies", ["lrw", "wow", "stow"])
        self.loads = more.get("loads", LOADS)
        self.iops = more.get("iops", 1300)
        # Seconds of the disks' own time.
        self.warm = more.get("warm", 60)
        self.warm_no_cache = more.get("warm_no_cache", 10)
        self.measured = more.get("measured", 40)
        # MiB of the NVS device; by default it holds a sixteenth of what is written.
        self.nvs = more.get("nvs")
        self.folder = more.get("folder", Path("/dev/shm"))
        # What the NVS turns out to hold.
        self.nvs_pages = 0

    def nvs_mebibytes(self):
        return self.nvs or round(self.footprint / 16 * LOG_SHARE)

    def disk_mebibytes(self):
        """Four disks' data hold the footprint, with some room."""
        return self.footprint // 4 + 44


class Process:
    """A program that serves on a Unix socket until it is stopped."""

    def __init__(self, words, log, ready):
        with open(log, "ab") as out:
            self.process = subprocess.Popen([str(word) for word in words], stdout=out, stderr=out,
                                            stdin=subprocess.DEVNULL, start_new_session=True)
        up = wait_until(lambda: self.process.poll() is not None or ready(), 30)
        if not up or self.process.poll() is not None:
            self.stop()
            raise Failure(f"{words[1]}: {tail(Path(log).read_text(errors='replace'))}")

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Bed:
    """The emulated disks, and the arrays that are made of them one after another."""

    def __init__(self, options):
        self.options = options
        self.folder = Path(tempfile.mkdtemp(prefix="emulated-", dir=options.folder))
        self.disks = []

    def __enter__(self):
        try:
            for disk in range(DISKS):
                words = [self.options.binary, "emulate", SPEC, "--speed", self.options.speed,
                         "--nbd", f"unix:{self.socket(disk)}"]
                size = self.disk_size()
                words += ["--size", size] if size else []
                ready = lambda disk=disk: wire.serves(self.socket(disk), SPEC)
                self.disks.append(Process(words, self.folder / f"d{disk}.log", ready))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error):
        for disk in self.disks:
            disk.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def disk_size(self):
        """Size of each disk; `None`: all that such a drive has."""
        return f"{self.options.disk_mebibytes()}M"

    def socket(self, disk):
        return self.folder / f"d{disk}.sock"

    def create(self, policy):
        """An array under the policy, or without a cache, on disks that look new."""
        for disk in range(DISKS):
            with wire.Connection(self.socket(disk), timeout=30) as disk_of:
                disk_of.greet()
                disk_of.go(SPEC)
                error, _ = disk_of.call(wire.WRITE, 0, MIB, payload=bytes(MIB))
                if error:
                    raise Failure(f"an emulated disk cannot be cleared: error {error}")
        for file in self.folder.glob("*.toml"):
            file.unlink()
        (self.folder / "nvs").unlink(missing_ok=True)
        words = ["create", "peer", "--level", "5", "--assume-clean"]
        for disk in range(DISKS):
            words += ["--disk", f"nbd+unix:///{SPEC}?socket={self.socket(disk)}"]
        if policy != NO_CACHE:
            nvs = f"{self.folder}/nvs,size={self.options.nvs_mebibytes()}M"
            words += ["--nvs", nvs, "--policy", policy]
        run(self.options.binary, *words, "--config-dir", self.folder)

    def measure(self, policy, load):
        """The figures of one array under one load."""
        return self.serve(policy, lambda uri: self.load(uri, policy, load))

    def serve(self, policy, action, *options):
        """What `action` says of a new array that is served with these options."""
        self.create(policy)
        served = self.folder / "array.sock"
        words = [self.options.binary, "serve", "peer", "--nbd", f"unix:{served}",
                 "--config-dir", self.folder, *options]
        server = Process(words, self.folder / "array.log", lambda: wire.serves(served, ""))
        try:
            said = run(self.options.binary, "status", "peer", "--config-dir", self.folder,
                       "--format", "json")
            self.options.nvs_pages = json.loads(said)["nvs_pages"] or self.options.nvs_pages
            return action(f"nbd+unix:///?socket={served}")
        except Failure as failure:
            said = tail((self.folder / "array.log").read_text(errors="replace"))
            raise Failure(f"{policy}: {failure}; the array said: {said}") from failure
        finally:
            server.stop()

    def load(self, uri, policy, load):
        options, speed = self.options, self.options.speed
        warm = options.warm_no_cache if policy == NO_CACHE else options.warm
        words = ["bench", uri, "--size", f"{options.footprint}M", "--format", "json",
                 "--warmup", f"{warm / speed}s", "--time", f"{options.measured / speed}s"]
        if load == "uniform":
            words += ["--rw", "randwrite", "--depth", "32"]
        elif load in MORE:
            words += MORE[load][1]
        else:
            words += ["--workload", f"spc1:iops={options.iops * speed}", "--depth", "1024"]
        seconds = (warm + options.measured) / speed + 180
        return figures_of(json.loads(run(options.binary, *words, timeout=seconds)), speed)


def figures_of(said, speed):
    """Rates and times of a run of `destage bench`, in the disks' own time."""
    kinds = {row["kind"]: row for row in said["kinds"]}
    got = {"answered/s": said["requests"] / said["time_s"] / speed}
    for kind, row in kinds.items():
        got[f"{kind}s, mean ms"] = row["mean_us"] / 1000 * speed
        got[f"{kind}s, p99 ms"] = row["p99_us"] / 1000 * speed
    return got


def title(options, load):
    if load == "uniform":
        return "uniform writes, depth 32"
    if load in MORE:
        return MORE[load][0]
    return f"SPC-1-like, {options.iops:,.0f}/s offered"


def rounds_of(options, number_of_rounds, figures, tell=say):
    """All arrays under all loads, in turn, this many times."""
    hurry()
    arrays = [(load, who) for load in options.loads for who in [NO_CACHE, *options.policies]]
    with Bed(options) as bed:
        for number, (load, policy) in in_rounds(number_of_rounds, arrays):
            for name, value in bed.measure(policy, load).items():
                figures.add(f"{title(options, load)}: {name}", policy, value)
            tell(f"emulated disks: round {number} of {number_of_rounds}: {policy}, {load} done")
    return figures


def hurry():
    """Runs this and what it starts before all else, for what is late is not as modelled."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(5))
    except PermissionError:
        say("no real-time priority (run as root): what else runs here may disturb the disks")


def in_rounds(rounds, what):
    """All of `what` in turn, this many times, with the number of the round."""
    return ((number, one) for number in range(1, rounds + 1) for one in what)


def options_of_all(parser, disk_speed, warm):
    """The options of every command that loads emulated disks, with these defaults."""
    parser.add_argument("--destage", type=Path, default=HERE.parents[1] / "target/release/destage")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--disk-speed", type=float, default=disk_speed, metavar="K",
                        help="speed-up of the disks over real ones")
    parser.add_argument("--warm", type=float, default=warm, metavar="S",
                        help="seconds of the disks' time before measuring")
    parser.add_argument("--measured", type=float, default=40, metavar="S")


def arguments():
    parser = argparse.ArgumentParser(description="Arrays of emulated disks, cached and not.")
    options_of_all(parser, disk_speed=1, warm=60)
    parser.add_argument("--policies", default="lrw,wow,stow")
    parser.add_argument("--loads", default=",".join(LOADS), help="of: " + ", ".join([*LOADS, *MORE]))
    parser.add_argument("--nvs", type=int, metavar="MIB",
                        help="size of the NVS device [default: it holds a sixteenth of the load]")
    parser.add_argument("--iops", type=float, default=1300, help="offered by the SPC-1-like load")
    return parser.parse_args()


def main():
    given = arguments()
    end_on_sigterm()
    unknown = set(given.loads.split(",")) - {*LOADS, *MORE}
    if unknown:
        say(f"emulated: no load {', '.join(sorted(unknown))}: there are {', '.join([*LOADS, *MORE])}")
        return 2
    options = Options(given.destage.resolve(), speed=given.disk_speed, iops=given.iops,
                      policies=given.policies.split(","), loads=given.loads.split(","),
                      warm=given.warm, measured=given.measured, nvs=given.nvs)
    try:
        figures = rounds_of(options, given.rounds, Figures())
    except (Skip, Failure) as reason:
        say(f"emulated: {reason}")
        return 1
    say(f"five emulated disks ({SPEC}), {options.footprint} MiB loaded, NVS of "
        f"{options.nvs_pages:,} pages")
    say(text_table(figures, [NO_CACHE]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
