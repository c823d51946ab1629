#!/usr/bin/python3
"""What an NVS device gives when it is old, full, or written in small parts.

ageing   Durable 4 KiB random writes at depth 32 while little is held (a fresh device: free slots
         follow each other), and at 90 % held after the device was written many times over (free
         slots are scattered), on tmpfs and on a disk; there next to fio's O_DSYNC writes to a
         file. Nothing is destaged: the volume is as large as what is held.
start    From `kill -9` with a full NVS until the array serves again, next to reading the device
         once, with direct I/O, and next to reading it into as much new memory as it has bytes.
bytes    Bytes written to the NVS device for each byte that the host writes, in the steady state at
         90 % held, level 5, by policy, one write at a time and 64; with sectors of 512 bytes and,
         on a loop device where there is one, of 4,096.
parts    Latencies of 512-byte and of 4 KiB writes to an array of emulated disks, at a rate that
         it sustains.

    python3 tests/conformance/nvs.py --rounds 3 --disk-dir /var/tmp
"""

import argparse
import mmap
import os
import shutil
import tempfile
import time
from pathlib import Path

import emulated
import servers
import speed
from figures import Figures, text_table
from harness import HERE, MIB, Failure, Skip, end_on_sigterm, run, say

PARTS = ("ageing", "start", "bytes", "parts")
PAGE = 4096
# Of the most dirty pages.
HELD = {"fresh": 0.2, "aged": 0.9}


# Nothing is destaged before this much of the NVS is held.
RATE = ["--rate", "linear:99/98"]


def nvs_pages(options, mebibytes):
    """The most dirty pages of an NVS device, as `create` says."""
    folder = Path(tempfile.mkdtemp(prefix="nvs-pages-", dir=options.shm))
    try:
        array = servers.DestageSingle(folder, servers.Options(
            options.destage, 2 * mebibytes * MIB, nvs_bytes=mebibytes * MIB))
        array.start()
        pages = array.commands.status()["nvs_pages"]
        array.stop()
        return pages
    finally:
        array.kill9()
        shutil.rmtree(folder, ignore_errors=True)


class Served:
    """An array of its own folder, of a volume of this many pages."""

    def __init__(self, options, pages, disk_dir=None):
        self.folder = Path(tempfile.mkdtemp(prefix="nvs-", dir=options.shm))
        self.on_disk = Path(tempfile.mkdtemp(prefix="nvs-", dir=disk_dir)) if disk_dir else None
        self.nvs = (self.on_disk or self.folder) / "nvs"
        self.array = servers.DestageSingle(self.folder, servers.Options(
            options.destage, pages * PAGE, nvs_folder=self.on_disk,
            nvs_bytes=options.nvs * MIB, create=RATE))

    def __enter__(self):
        self.array.start()
        return self.array

    def __exit__(self, *_error):
        self.array.kill9()
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.on_disk:
            shutil.rmtree(self.on_disk, ignore_errors=True)


def bench(options, array, pages, seconds, depth=32):
    """What `destage bench` says of random writes over these pages."""
    words = [options.destage, "bench", array.uri, "--rw", "randwrite", "--depth", str(depth),
             "--size", str(pages * PAGE), "--time", f"{seconds}s", "--format", "json"]
    return servers.DestageCommands.bench_row(run(*words, timeout=seconds + 60))


def fill(array, pages):
    speed.fio("--ioengine=nbd", f"--uri={array.uri}", "--rw=write", "--bs=256k", "--iodepth=4",
              f"--size={pages * PAGE}")


def ageing(options, figures):
    """One round."""
    where = {"tmpfs": None}
    if options.disk_dir:
        where["disk"] = options.disk_dir
        plain = argparse.Namespace(disk_dir=options.disk_dir, size=512, seconds=options.seconds)
        measured = Figures()
        speed.measure_plain(plain, measured, lambda action: action())
        rate = measured.median("disk, depth 32: writes/s", speed.PLAIN)
        figures.add("ageing, disk: writes/s", speed.PLAIN, rate)
    for place, disk_dir in where.items():
        for name, share in HELD.items():
            pages = int(options.pages * share) // 64 * 64
            with Served(options, pages, disk_dir) as array:
                fill(array, pages)
                if name == "aged":
                    age(options, array, pages)
                row = bench(options, array, pages, options.seconds)
                array.stop()
            figures.add(f"ageing, {place}: writes/s", name, row["rate_s"])


def age(options, array, pages):
    """Writes the device many times over."""
    left = options.times * options.pages
    while left > 0:
        left -= 5 * bench(options, array, pages, 5)["rate_s"]


def start(options, figures):
    """One round."""
    folder = options.disk_dir or options.shm
    pages = int(options.pages * 0.98) // 64 * 64
    served = Served(options, pages, folder)
    with served as array:
        fill(array, pages)
        array.kill9()
        # The kernel holds on to the files of a killed server's ring for a moment.
        time.sleep(1)
        begun = time.monotonic()
        array.restart()
        figures.add("start: s", "array", time.monotonic() - begun)
        array.kill9()
        time.sleep(1)
        figures.add("start: s", "reading once", reading(options, served.nvs, 1))
        figures.add("start: s", "keeping it", reading(options, served.nvs, options.nvs))


def reading(options, device, mebibytes):
    """Seconds to read a device once, with direct I/O, into new memory of this size."""
    begun = time.monotonic()
    file = os.open(device, os.O_RDONLY | os.O_DIRECT)
    buffer = mmap.mmap(-1, mebibytes * MIB)
    with memoryview(buffer) as memory:
        for at in range(0, options.nvs * MIB, MIB):
            into = at % (mebibytes * MIB)
            os.preadv(file, [memory[into:into + MIB]], at)
    os.close(file)
    return time.monotonic() - begun


def written(options, figures):
    """One round."""
    for block_bytes in (512, 4096):
        for policy in ("wow", "stow"):
            for depth in (1, 64):
                share = bytes_written(options, policy, depth, block_bytes)
                name = f"{policy}, {depth} at a time"
                figures.add(f"bytes per host byte, sectors of {block_bytes}", name, share)


def bytes_written(options, policy, depth, block_bytes):
    """For each byte of the host, on tmpfs."""
    folder = Path(tempfile.mkdtemp(prefix="nvs-", dir=options.shm))
    nvs = options.nvs_of_bytes * MIB
    array, loop = None, None
    try:
        if block_bytes != 512:
            loop = loop_device(folder / "loop", nvs, block_bytes)
        array = servers.Destage(folder, servers.Options(
            options.destage, 8 * nvs, nvs_bytes=nvs, nvs_device=loop,
            create=["--policy", policy, "--rate", "linear:91/89"]))
        array.start()
        # Until the ring has come round with 90 % held, then as long again.
        pages = 8 * nvs // PAGE
        bench(options, array, pages, options.seconds * 2, 64)
        before = array.commands.status()
        bench(options, array, pages, options.seconds * 2, depth)
        after = array.commands.status()
        array.stop()
        host = after["pages_written"] - before["pages_written"]
        return (after["log_bytes_written"] - before["log_bytes_written"]) / (host * PAGE)
    finally:
        if array:
            array.kill9()
        if loop:
            run("losetup", "--detach", loop)
        shutil.rmtree(folder, ignore_errors=True)


def loop_device(file, size, block_bytes):
    """A block device with sectors of this size."""
    file.touch()
    os.truncate(file, size)
    if os.geteuid() != 0 or shutil.which("losetup") is None:
        raise Skip("loop devices take root and losetup: --parts without bytes")
    return run("losetup", "--find", "--show", "--sector-size", str(block_bytes), file).strip()


def parts(options, figures):
    """One round."""
    made = emulated.Options(options.destage, folder=options.shm)
    for size in (512, 4096):
        with emulated.Bed(made) as bed:
            words = ["--rw", "randwrite", "--bs", str(size), "--depth", "256", "--iops",
                     str(options.iops), "--arrivals", "poisson", "--size", f"{made.footprint}M",
                     "--warmup", "10s", "--time", "30s", "--format", "json"]
            bench_it = lambda uri, words=words: run(options.destage, "bench", uri, *words,
                                                    timeout=200)
            row = servers.DestageCommands.bench_row(bed.serve("stow", bench_it))
        for figure in ("p50_us", "p99_us"):
            figures.add(f"writes on emulated disks: {figure}", f"{size} bytes", row[figure])


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--destage", type=Path, default=HERE.parents[1] / "target/release/destage")
    parser.add_argument("--parts", default=",".join(PARTS), help="which of: " + ", ".join(PARTS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3, help="of each measurement")
    parser.add_argument("--nvs", type=int, default=1024, metavar="MIB", help="NVS device")
    parser.add_argument("--nvs-of-bytes", type=int, default=64, metavar="MIB",
                        help="NVS device of the part `bytes`")
    parser.add_argument("--times", type=int, default=20,
                        help="how often the device is written over before it counts as aged")
    parser.add_argument("--iops", type=float, default=150, help="offered by the part `parts`")
    parser.add_argument("--shm", type=Path, default=Path("/dev/shm"), help="a tmpfs")
    parser.add_argument("--disk-dir", type=Path, help="a folder on a real disk")
    return parser.parse_args()


def main():
    options = arguments()
    end_on_sigterm()
    options.destage = options.destage.resolve()
    wanted = options.parts.split(",")
    unknown = [part for part in wanted if part not in PARTS]
    if unknown:
        say(f"nvs: no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
        return 2
    actions = dict(zip(PARTS, (ageing, start, written, parts)))
    figures = Figures()
    try:
        options.pages = nvs_pages(options, options.nvs)
        for done in range(1, options.rounds + 1):
            for part in wanted:
                actions[part](options, figures)
            say(f"nvs: round {done} of {options.rounds} done")
    except (Skip, Failure) as reason:
        say(f"nvs: {reason}")
        return 1
    say(f"NVS of {options.nvs} MiB, {options.pages:,} dirty pages at most")
    say(text_table(figures, []))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
