#!/usr/bin/python3
"""Speed of NBD servers side by side: 4 KiB random writes by fio over a Unix socket.

Rounds are interleaved (each round has every server once), all data is on tmpfs, everything that
will be written has been written once before, and medians are compared. destage runs twice: over
one file as the others, with an NVS that holds what is written ("held"); and over a RAID-5 of
three files with an NVS of half of that, so that it destages as fast as it is written
("destaging"). With --disk-dir also the log on a real disk, against fio's own O_DSYNC writes to
a file there. With `destage bench` a second table by a generator that batches.

    python3 tests/conformance/speed.py --rounds 5 --seconds 5 --disk-dir /var/tmp --json speed.json
"""

import argparse
import functools
import json
import os
import platform
import shutil
import tempfile
from pathlib import Path

import procfs
import servers
from figures import Figures, text_table
from harness import MIB, Failure, Skip, end_on_sigterm, need, run, say

# (name, queue depth, connections)
SHAPES = [("depth 1", 1, 1), ("depth 32", 32, 1), ("4 x depth 32", 32, 4)]
DISK_SHAPES = SHAPES[:2]
PLAIN = "fio O_DSYNC"
PEERS = ["nbdkit", "nbd-server", "qemu-nbd"]
# Ours: the server, and its NVS as a multiple of what is written. A log that has room appends;
# one that is nearly full of live pages moves them as well.
HELD, DESTAGING = "destage, held", "destage, destaging"
OURS = {HELD: ("destage-single", 6), DESTAGING: ("destage", 0.5)}
DISK = "destage, NVS on the disk"
ON_DISK = {DISK: ("destage-single", 4)}
# Time for measurements that are repeated because the hypervisor disturbed them.
REPEAT_SECONDS = 180


def fio(*words, seconds=None):
    """fio's figures of one kind of load, over all its jobs."""
    length = ["--time_based", f"--runtime={seconds}", "--norandommap"] if seconds else []
    said = run("fio", "--name=speed", "--group_reporting", "--output-format=json",
               "--randrepeat=0", *length, *words, timeout=(seconds or 0) + 120,
               env={"PATH": "/usr/bin:/bin", "HOME": "/"})
    job = json.loads(said[said.index("{"):])["jobs"][0]
    if job["error"] or not job["write"]["total_ios"]:
        raise Failure(f"fio: error {job['error']}, {job['write']['total_ios']} writes")
    write = job["write"]
    return {"iops": write["iops"], "writes": write["total_ios"],
            "mean_us": write["clat_ns"]["mean"] / 1000,
            "p99_us": write["clat_ns"].get("percentile", {}).get("99.000000", 0) / 1000}


def written(options):
    """MiB of the export that are written: a cache of 80 % of its pages holds them."""
    return options.size * 3 // 4


def fill(options, server):
    """Writes everything once: the first write to a page costs every server more."""
    fio("--ioengine=nbd", f"--uri={server.uri}", "--rw=write", "--bs=256k", "--iodepth=4",
        f"--size={written(options)}m")


def over_nbd(options, server, depth, connections):
    return fio("--ioengine=nbd", f"--uri={server.uri}", "--rw=randwrite", "--bs=4k",
               f"--iodepth={depth}", f"--numjobs={connections}", f"--size={written(options)}m",
               seconds=options.seconds)


def keep(figures, who, name, got):
    figures.add(f"{name}: writes/s", who, got["iops"])
    figures.add(f"{name}: mean us", who, got["mean_us"])
    figures.add(f"{name}: p99 us", who, got["p99_us"])


def measure_server(options, figures, name, server, calm):
    """All shapes on a server that runs."""

    def both(depth, connections):
        before = procfs.processor_seconds(server.pid)
        got = over_nbd(options, server, depth, connections)
        return got, procfs.processor_seconds(server.pid) - before

    for shape, depth, connections in SHAPES:
        got, used = calm(functools.partial(both, depth, connections))
        keep(figures, name, shape, got)
        if (depth, connections) == (32, 1):
            figures.add(f"{shape}: server CPU us/write", name, used / got["writes"] * 1e6)


def measure_disk(options, figures, name, server, commands, calm):
    """Our log on a disk."""
    fill(options, server)
    for shape, depth, connections in DISK_SHAPES:
        got = calm(functools.partial(over_nbd, options, server, depth, connections))
        keep(figures, name, f"disk, {shape}", got)
    if commands:
        # Where fio's engine ends before the server does.
        bench(options, figures, name, server, commands, calm, DISK_SHAPES, "disk, destage bench, ")


def measure_plain(options, figures, calm):
    """What a file on that disk takes: direct, each write durable when it is answered."""
    with tempfile.TemporaryDirectory(prefix="nbd-plain-", dir=options.disk_dir) as folder:
        file = Path(folder) / "plain"
        lay_out(file, written(options))
        for shape, depth, _ in DISK_SHAPES:
            got = calm(functools.partial(
                fio, "--ioengine=libaio", f"--filename={file}", "--rw=randwrite", "--bs=4k",
                "--direct=1", "--sync=dsync", f"--iodepth={depth}",
                f"--size={written(options)}m", seconds=options.seconds))
            keep(figures, PLAIN, f"disk, {shape}", got)


def lay_out(file, mebibytes):
    """The file's blocks, written: the first write to a block costs more than a later one."""
    with open(file, "wb") as out:
        for _ in range(mebibytes):
            out.write(bytes(MIB))
        os.fsync(out.fileno())


def bench(options, figures, name, server, commands, calm, shapes=tuple(SHAPES), prefix=""):
    """`destage bench`, which sends many requests at once, against any server."""
    for shape, depth, connections in shapes:
        words = commands.bench(server.uri, depth, connections, options.seconds,
                               written(options))
        said = calm(functools.partial(run, *words, timeout=options.seconds + 60))
        row = commands.bench_row(said)
        figures.add(f"{prefix}{shape}: writes/s", name, row["rate_s"])
        figures.add(f"{prefix}{shape}: p99 us", name, row["p99_us"])


class Round:
    """Starts each server in a folder of its own and takes it away again."""

    def __init__(self, options, commands):
        self.options = options
        self.commands = commands
        self.fio = Figures()
        self.bench = Figures()
        self.disk = Figures()
        self.skipped = {}
        self.calm = procfs.Calm(REPEAT_SECONDS)

    def on_server(self, name, action, nvs_folder=None):
        kind, share = {**OURS, **ON_DISK}.get(name, (name, 0))
        folder = Path(tempfile.mkdtemp(prefix="nbd-speed-", dir=self.options.shm))
        nvs = int(written(self.options) * share) * MIB
        made = servers.Options(self.options.destage, self.options.size * MIB,
                               nvs_folder=nvs_folder, nvs_bytes=nvs)
        server = None
        try:
            server = servers.SERVERS[kind](folder, made)
            server.start()
            action(name, server)
            server.stop()
        except Skip as reason:
            self.skipped[name] = str(reason)
        finally:
            if server is not None:
                server.kill9()
            shutil.rmtree(folder, ignore_errors=True)

    def measure(self, name, server):
        fill(self.options, server)
        measure_server(self.options, self.fio, name, server, self.calm)
        if self.commands:
            bench(self.options, self.bench, name, server, self.commands, self.calm)

    def run(self):
        for name in [] if self.options.disk_only else [*OURS, *PEERS]:
            self.on_server(name, self.measure)
        if self.options.disk_dir:
            measure_plain(self.options, self.disk, self.calm)
            self.on_disk()

    def on_disk(self):
        with tempfile.TemporaryDirectory(prefix="nbd-nvs-", dir=self.options.disk_dir) as folder:
            self.on_server(DISK, lambda name, server: measure_disk(
                self.options, self.disk, name, server, self.commands, self.calm),
                nvs_folder=folder)


def table(title, figures):
    """Medians, and ours over the best of the others."""
    others = [name for name in figures.who() if not name.startswith("destage")]
    if figures.who():
        say(f"\n{title}")
        say(text_table(figures, others))


def versions():
    said = {"kernel": platform.release(), "cpus": os.cpu_count(),
            "fio": run("fio", "--version").strip()}
    if shutil.which("nbdkit"):
        said["nbdkit"] = run("nbdkit", "--version").strip()
    if shutil.which("nbd-server"):
        said["nbd-server"] = run("nbd-server", "-V", codes=(0, 1)).split("This is ")[-1].strip()
    if shutil.which("qemu-nbd"):
        said["qemu-nbd"] = run("qemu-nbd", "--version").splitlines()[0].strip()
    return said


def arguments():
    parser = argparse.ArgumentParser(description="NBD servers side by side.")
    parser.add_argument("--destage", type=Path, metavar="PATH", help="destage's binary")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5, help="of each measurement")
    parser.add_argument("--size", type=int, default=512, metavar="MIB", help="of the exports")
    parser.add_argument("--shm", type=Path, default=Path("/dev/shm"), help="a tmpfs")
    parser.add_argument("--disk-dir", type=Path, help="a folder on a real disk")
    parser.add_argument("--disk-only", action="store_true", help="only what --disk-dir is for")
    parser.add_argument("--json", type=Path, help="write all figures here")
    options = parser.parse_args()
    if options.disk_only and not options.disk_dir:
        parser.error("--disk-only needs --disk-dir")
    return options


def batching(options):
    """`destage bench`, if there is one."""
    commands = servers.DestageCommands(servers.Server("", servers.Options(options.destage)))
    return commands if commands.binary.exists() and commands.has_bench() else None


def write_json(options, rounds):
    whole = {"machine": versions(), "rounds": options.rounds, "seconds": options.seconds,
             "size_mib": options.size, "written_mib": written(options), "fio": rounds.fio.as_json(),
             "disk": rounds.disk.as_json(), "bench": rounds.bench.as_json(),
             "repeated": rounds.calm.repeated, "stolen": rounds.calm.shares,
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
    say(f"\n{rounds.calm.text()}")
    for name, reason in rounds.skipped.items():
        say(f"SKIPPED {name}: {reason}")
    if options.json:
        write_json(options, rounds)
    return 0 if rounds.fio.values or rounds.disk.values else 1


if __name__ == "__main__":
    raise SystemExit(main())
