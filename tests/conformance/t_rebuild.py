"""A member's file is deleted under load: service continues, a spare is rebuilt, a scrub finds
nothing, and every byte is what was written; the same with kill -9 in mid-rebuild; and what is not a
failure: a process that is paused."""

import json
import random
import signal
import threading
import time

from harness import MIB, Skip, equal, expect, need, run, test, wait_until

IMAGE = 64 * MIB
BLOCK = 4096
MEMBERS = 5


def library():
    try:
        import nbd  # python3-libnbd
    except ImportError as error:
        raise Skip("python3-libnbd is not installed") from error
    return nbd


class Load(threading.Thread):
    """Writes blocks one after another, and knows what was acknowledged."""

    def __init__(self, case, image):
        super().__init__(daemon=True)
        self.nbd = library()
        self.uri = case.uri
        self.image = image
        self.source = random.Random(case.seed)
        self.over = threading.Event()
        self.written = 0
        self.error = None
        # Offset and contents of what may have been written or not.
        self.open = None

    def run(self):
        try:
            handle = self.nbd.NBD()
            handle.connect_uri(self.uri)
            while not self.over.is_set():
                count = self.source.choice([1, 1, 1, 4, 16])
                at = self.source.randrange(IMAGE // BLOCK - count) * BLOCK
                data = self.source.randbytes(count * BLOCK)
                self.open = (at, data)
                handle.pwrite(data, at)
                self.image[at:at + len(data)] = data
                self.open = None
                self.written += 1
                if self.written % 8 == 0:
                    at = self.source.randrange(IMAGE // BLOCK) * BLOCK
                    got = handle.pread(BLOCK, at)
                    expect(got == self.image[at:at + BLOCK], f"another block is at {at}")
        except Exception as error:  # reported by the test, in its own thread
            self.error = error

    def end(self, killed=False):
        self.over.set()
        self.join(30)
        if not killed and self.error is not None:
            raise self.error


def destage(case, *words, codes=(0,)):
    commands = case.server.commands
    return run(commands.binary, *words[:1], commands.VOLUME, *words[1:], "--config-dir",
               case.server.folder, codes=codes)


def status(case):
    return json.loads(destage(case, "status", "--format", "json"))


def state(case):
    return status(case)["state"]


def begin(case, member):
    """An array of five files with an image, under load; a file is gone, a spare is rebuilt."""
    if not hasattr(case.server, "commands"):
        raise Skip(f"{case.server.name} is not an array")
    need("nbdcopy")
    image = bytearray(random.Random(case.seed).randbytes(IMAGE))
    source = case.folder / "image"
    source.write_bytes(image)
    run("nbdcopy", source, case.uri)
    size = (case.server.folder / "f0").stat().st_size
    destage(case, "spare", "add", f"{case.server.folder / 'spare'},size={size}")
    # Slow enough to be met on its way, quick enough for this test.
    destage(case, "set", "--rebuild", "window=64,share=40")
    load = Load(case, image)
    load.start()
    time.sleep(0.3)
    (case.server.folder / member).unlink()
    expect(wait_until(lambda: rebuilding(case), 10), "no spare is rebuilt")
    return image, load


def end(case, image):
    """The array is clean, a scrub finds nothing, the contents are right."""
    expect(wait_until(lambda: state(case) == "clean", 40, step=0.2), f"not clean: {status(case)}")
    destage(case, "scrub", "--limit", "4G")
    devices = {device["device"]: device["state"] for device in status(case)["devices"]}
    equal(devices.get(str(case.server.folder / "spare")), "in use", "the spare")
    copy = case.folder / "copy"
    run("nbdcopy", case.uri, copy)
    with open(copy, "rb") as file:
        found = file.read(IMAGE)
    for block in range(0, IMAGE, BLOCK):
        expect(found[block:block + BLOCK] == image[block:block + BLOCK],
               f"another block is at {block}")


def rebuilding(case):
    rebuilds = status(case)["rebuilds"]
    return bool(rebuilds) and rebuilds[0]["bytes_done"] > 0


@test("rebuild-deleted-file", members=MEMBERS)
def deleted(case):
    image, load = begin(case, "f2")
    before, began = load.written, time.monotonic()
    expect(wait_until(lambda: state(case) == "clean", 40, step=0.1), f"{status(case)}")
    took = time.monotonic() - began
    expect(load.error is None and load.written > before, f"service stopped: {load.error}")
    case.note(f"rebuilt in {took:.1f} s, {load.written - before} writes in that time")
    load.end()
    end(case, image)


@test("rebuild-kill9", members=MEMBERS)
def killed(case):
    image, load = begin(case, "f4")
    case.server.kill9()
    load.end(killed=True)
    case.server.restart()
    went_on = status(case)
    equal(went_on["state"], "rebuilding", "state after kill -9")
    again = Load(case, image)
    first = load.open
    if first is not None:
        # Read what is there: it may be either, but stays so.
        handle = library().NBD()
        handle.connect_uri(case.uri)
        at, data = first
        for block in range(at, at + len(data), BLOCK):
            got = handle.pread(BLOCK, block)
            old, new = image[block:block + BLOCK], data[block - at:block - at + BLOCK]
            expect(got in (bytes(old), new), f"neither old nor new at {block}")
            image[block:block + BLOCK] = got
    again.start()
    expect(wait_until(lambda: state(case) == "clean", 40, step=0.1), f"{status(case)}")
    again.end()
    case.note(f"{load.written} writes before, {again.written} after")
    end(case, image)


@test("pause-is-not-a-stall", members=MEMBERS)
def paused(case):
    """The process is stopped for longer than a device may take (a machine that sleeps, a debugger):
    nothing is given up when it continues, and the load neither fails nor reads other bytes. A busy
    machine's own device may take a second; hence not a second here."""
    if not hasattr(case.server, "commands"):
        raise Skip(f"{case.server.name} is not an array")
    case.server.stop()
    config = case.server.folder / f"{case.server.commands.VOLUME}.toml"
    said = config.read_text()
    expect("\nstall_seconds = 30\n" in said, "no stall_seconds in the configuration")
    config.write_text(said.replace("\nstall_seconds = 30\n", "\nstall_seconds = 3\n"))
    case.server.restart()
    image = bytearray(random.Random(case.seed).randbytes(IMAGE))
    source = case.folder / "image"
    source.write_bytes(image)
    run("nbdcopy", source, case.uri)
    load = Load(case, image)
    load.start()
    for _ in range(4):
        time.sleep(0.3)
        before = load.written
        case.server.process.send_signal(signal.SIGSTOP)
        time.sleep(3.6)
        case.server.process.send_signal(signal.SIGCONT)
        expect(wait_until(lambda: load.written > before or load.error, 20), "the load hangs")
        expect(load.error is None, f"the load failed: {load.error}")
    load.end()
    now = status(case)
    equal((now["state"], now["alarms"]), ("clean", []), "state and alarms")
