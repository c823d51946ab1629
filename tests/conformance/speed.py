#!/usr/bin/python3
"""Speed of NBD servers side by side: 4 KiB random writes by fio over a Unix socket.

Rounds are interleaved (each round has every server once), all data is on tmpfs, and medians are
compared. With --disk-dir also the log on a real disk, against fio's own O_DSYNC writes to a file
there. With `destage bench` a second table by a generator that batches.

    python3 tests/conformance/speed.py --rounds 5 --seconds 5 --disk-dir /var/tmp --json speed.json
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import tempfile
from pathlib import Path

import procfs
import servers
from harness import MIB, Failure, Skip, end_on_sigterm, need, run, say

# (name, queue depth, connections)
SHAPES = [("depth 1", 1, 1), ("depth 32", 32, 1), ("4 x depth 32", 32, 4)]
DISK_SHAPES = SHAPES[:2]
PEERS = ["destage", "nbdkit", "nbd-server"]
OURS = "destage"


class Figures:
    """Values by (measure, what was measured), one for each round."""

    def __init__(self):
        self.values = {}
        self.measures = []

    def add(self, measure, who, value):
        if measure not in self.measures:
            self.measures.append(measure)
        self.values.setdefault((measure, who), []).append(value)

    def median(self, measure, who):
        found = self.values.get((measure, who))
        return statistics.median(found) if found else None

    def who(self):
        return list(dict.fromkeys(who for _, who in self.values))

    def as_json(self):
        return [{"measure": measure, "server": who, "median": statistics.median(values),
                 "rounds": values} for (measure, who), values in self.values.items()]


def fio(seconds, *words):
    """fio's figures of one kind of load, over all its jobs."""
    said = run("fio", "--name=speed", "--rw=randwrite", "--bs=4k", "--time_based",
               f"--runtime={seconds}", "--group_reporting", "--output-format=json",
               "--norandommap", "--randrepeat=0", *words, timeout=seconds + 60,
               env={"PATH": "/usr/bin:/bin", "HOME": "/"})
    job = json.loads(said[said.index("{"):])["jobs"][0]
    if job["error"] or not job["write"]["total_ios"]:
        raise Failure(f"fio: error {job['error']}, {job['write']['total_ios']} writes")
    write = job["write"]
    return {"iops": write["iops"], "writes": write["total_ios"],
            "mean_us": write["clat_ns"]["mean"] / 1000,
            "p99_us": write["clat_ns"]["percentile"]["99.000000"] / 1000}


def over_nbd(options, server, depth, connections):
    return fio(options.seconds, "--ioengine=nbd", f"--uri={server.uri}",
               f"--iodepth={depth}", f"--numjobs={connections}", f"--size={options.size}m")


def keep(figures, who, name, got):
    figures.add(f"{name}: writes/s", who, got["iops"])
    figures.add(f"{name}: mean us", who, got["mean_us"])
    figures.add(f"{name}: p99 us", who, got["p99_us"])


def measure_server(options, figures, server):
    """All shapes on a server that runs."""
    for name, depth, connections in SHAPES:
        before = procfs.processor_seconds(server.pid)
        got = over_nbd(options, server, depth, connections)
        used = procfs.processor_seconds(server.pid) - before
        keep(figures, server.name, name, got)
        if (depth, connections) == (32, 1):
            figures.add(f"{name}: server CPU us/write", server.name, used / got["writes"] * 1e6)


def measure_disk(options, figures, server):
    """Our log on a disk."""
    for name, depth, connections in DISK_SHAPES:
        keep(figures, server.name, f"disk, {name}", over_nbd(options, server, depth, connections))


def measure_plain(options, figures):
    """What a file on that disk takes: direct, each write durable when it is answered."""
    with tempfile.TemporaryDirectory(prefix="nbd-plain-", dir=options.disk_dir) as folder:
        file = Path(folder) / "plain"
        lay_out(file, options.size)
        for name, depth, _ in DISK_SHAPES:
            got = fio(options.seconds, "--ioengine=libaio", f"--filename={file}",
                      "--direct=1", "--sync=dsync", f"--iodepth={depth}",
                      f"--size={options.size}m")
            keep(figures, "fio O_DSYNC", f"disk, {name}", got)


def lay_out(file, mebibytes):
    """The file's blocks, written: the first write to a block costs more than a later one."""
    with open(file, "wb") as out:
        for _ in range(mebibytes):
            out.write(bytes(MIB))
        os.fsync(out.fileno())


def bench(options, figures, server, commands):
    """`destage bench`, which sends many requests at once, against any server."""
    for name, depth, connections in SHAPES:
        words = commands.bench(server.uri, depth, connections, options.seconds)
        said = run(*words, timeout=options.seconds + 60)
        figures.add(f"{name}: writes/s", server.name, commands.bench_rate(said))


class Round:
    """Starts each server in a folder of its own and takes it away again."""

    def __init__(self, options, commands):
        self.options = options
        self.commands = commands
        self.fio = Figures()
        self.bench = Figures()
        self.disk = Figures()
        self.skipped = {}

    def on_server(self, name, action, nvs_folder=None):
        folder = Path(tempfile.mkdtemp(prefix="nbd-speed-", dir=self.options.shm))
        made = servers.Options(self.options.destage, self.options.size * MIB,
                               nvs_folder=nvs_folder, nvs_bytes=self.options.nvs * MIB)
        server = None
        try:
            server = servers.SERVERS[name](folder, made)
            server.start()
            action(server)
            server.stop()
        except Skip as reason:
            self.skipped[name] = str(reason)
        finally:
            if server is not None:
                server.kill9()
            shutil.rmtree(folder, ignore_errors=True)

    def measure(self, server):
        measure_server(self.options, self.fio, server)
        if self.commands:
            bench(self.options, self.bench, server, self.commands)

    def run(self):
        for name in self.options.servers:
            self.on_server(name, self.measure)
        if self.options.disk_dir:
            measure_plain(self.options, self.disk)
            self.on_disk()

    def on_disk(self):
        with tempfile.TemporaryDirectory(prefix="nbd-nvs-", dir=self.options.disk_dir) as folder:
            self.on_server(OURS, lambda server: measure_disk(self.options, self.disk, server),
                           nvs_folder=folder)


def number(value):
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def table(title, figures):
    """A table of medians; where ours is there, ours divided by each other."""
    who = figures.who()
    if not who:
        return
    others = [name for name in who if name != OURS] if OURS in who else []
    heads = ["median of rounds"] + who + [f"{OURS}/{name}" for name in others]
    rows = [heads]
    for measure in figures.measures:
        medians = {name: figures.median(measure, name) for name in who}
        row = [measure] + [number(medians[name]) for name in who]
        row += [ratio(medians[OURS], medians[name]) for name in others]
        rows.append(row)
    widths = [max(len(row[column]) for row in rows) for column in range(len(heads))]
    say(f"\n{title}")
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        say("  ".join(cells))


def ratio(one, other):
    return f"{one / other:.2f}" if one and other else "-"


def versions():
    said = {"kernel": platform.release(), "cpus": os.cpu_count(),
            "fio": run("fio", "--version").strip()}
    if shutil.which("nbdkit"):
        said["nbdkit"] = run("nbdkit", "--version").strip()
    if shutil.which("nbd-server"):
        said["nbd-server"] = run("nbd-server", "-V", codes=(0, 1)).strip()
    return said


def arguments():
    parser = argparse.ArgumentParser(description="NBD servers side by side.")
    parser.add_argument("--destage", type=Path, metavar="PATH", help="destage's binary")
    parser.add_argument("--servers", default=",".join(PEERS), help="which, in which order")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5, help="of each measurement")
    parser.add_argument("--size", type=int, default=512, metavar="MIB", help="of the exports")
    parser.add_argument("--nvs", type=int, default=256, metavar="MIB", help="of destage's log")
    parser.add_argument("--shm", type=Path, default=Path("/dev/shm"), help="a tmpfs")
    parser.add_argument("--disk-dir", type=Path, help="a folder on a real disk")
    parser.add_argument("--json", type=Path, help="write all figures here")
    options = parser.parse_args()
    options.servers = options.servers.split(",")
    return options


def batching(options):
    """`destage bench`, if there is one."""
    commands = servers.DestageCommands(servers.Server("", servers.Options(options.destage)))
    return commands if commands.binary.exists() and commands.has_bench() else None


def write_json(options, rounds):
    whole = {"machine": versions(), "rounds": options.rounds, "seconds": options.seconds,
             "size_mib": options.size, "fio": rounds.fio.as_json(),
             "disk": rounds.disk.as_json(), "bench": rounds.bench.as_json(),
             "skipped": rounds.skipped}
    options.json.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")


def main():
    options = arguments()
    end_on_sigterm()
    try:
        need("fio")
    except Skip as reason:
        say(f"SKIPPED: {reason}")
        return 1
    rounds = Round(options, batching(options))
    for done in range(1, options.rounds + 1):
        rounds.run()
        say(f"round {done} of {options.rounds} done")
    table("fio, nbd engine, 4 KiB random writes, tmpfs, Unix socket", rounds.fio)
    table("The log on a disk, against O_DSYNC writes to a file there", rounds.disk)
    table("destage bench, which batches, tmpfs, Unix socket", rounds.bench)
    for name, reason in rounds.skipped.items():
        say(f"SKIPPED {name}: {reason}")
    if options.json:
        write_json(options, rounds)
    return 0 if rounds.fio.values else 1


if __name__ == "__main__":
    raise SystemExit(main())
