"""One adapter a server: start, stop cleanly, kill -9, start again on the same data.

Each keeps its data, its socket and its log in a folder of its own and runs in a process group of
its own, so that a signal reaches all of it and nothing else.
"""

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import procfs
import wire
from harness import HERE, MIB, Failure, Skip, tail, wait_until

READY_SECONDS = 20
STOP_SECONDS = 20

LEFT_EARLY = "a client that leaves with replies pending trips an assertion"


class Options:
    """What a server is started with, whichever it is."""

    def __init__(self, binary=None, size=256 * MIB, **more):
        self.binary = binary or HERE.parents[1] / "target/release/destage"
        self.size = size
        self.tls = more.get("tls")
        # A port of the loopback that it listens on too.
        self.tcp = more.get("tcp")
        self.ack = more.get("ack", "nvs")
        self.members = more.get("members")
        self.nvs_folder = more.get("nvs_folder")
        self.nvs_bytes = more.get("nvs_bytes", 64 * MIB)
        # A block device; without one a file is made.
        self.nvs_device = more.get("nvs_device")
        # More words of `destage create`.
        self.create = more.get("create", [])


class Server:
    """What all adapters share; a subclass says what to run."""

    name = ""
    export = ""
    # Features that a test may take for granted: without them it fails instead of skipping.
    claims = frozenset()
    # Tests that this server is known not to pass, with the reason. Only peers have any.
    limits = {}
    keeps_data = True
    clean_exit = True

    def __init__(self, folder, options=None):
        self.folder = Path(folder)
        self.options = options or Options()
        self.socket = self.folder / "nbd.sock"
        self.log = self.folder / "server.log"
        self.process = None

    def prepare(self):
        """Makes what the first start needs."""

    def command(self):
        raise NotImplementedError

    @property
    def scheme(self):
        return "nbds+unix" if self.options.tls else "nbd+unix"

    @property
    def uri(self):
        tls = f"&tls-certificates={self.options.tls}" if self.options.tls else ""
        return f"{self.scheme}:///{self.export}?socket={self.socket}{tls}"

    @property
    def pid(self):
        return self.process.pid

    def start(self):
        """First start; the URI for clients."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.prepare()
        return self.launch()

    def restart(self):
        """Start on the data that there is; the URI for clients."""
        return self.launch()

    def launch(self):
        self.socket.unlink(missing_ok=True)
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [str(word) for word in self.command()], stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, start_new_session=True)
        up = wait_until(lambda: not self.alive() or self.ready(), READY_SECONDS, step=0.01)
        if not up or not self.alive():
            said = tail(self.log.read_text(errors="replace"))
            self.kill9()
            raise Failure(f"{self.name} does not serve: {said}")
        return self.uri

    def ready(self):
        if self.options.tls:
            return wire.greets(self.socket)
        return wire.serves(self.socket, self.export)

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def signal_group(self, number):
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass

    def stop(self):
        """A clean stop; the exit status."""
        if self.alive():
            self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired as error:
            self.kill9()
            raise Failure(f"{self.name} did not stop within {STOP_SECONDS} s") from error
        self.signal_group(signal.SIGKILL)
        if self.clean_exit and status != 0:
            raise Failure(f"{self.name} stopped with status {status}")
        return status

    def kill9(self):
        """Ends it without a chance to do anything."""
        if self.process is not None:
            self.signal_group(signal.SIGKILL)
            self.process.wait()


class DestageCommands:
    """Every word of destage's command line that this folder uses."""

    VOLUME = "conformance"

    def __init__(self, server):
        self.server = server
        self.binary = Path(server.options.binary)

    def create(self, level, disks, nvs):
        words = [self.binary, "create", self.VOLUME, "--level", level]
        for disk in disks:
            words += ["--disk", disk]
        return words + ["--nvs", nvs, "--config-dir", self.server.folder]

    def serve(self):
        words = [self.binary, "serve", self.VOLUME, "--nbd", f"unix:{self.server.socket}",
                 "--config-dir", self.server.folder]
        if self.server.options.tcp:
            words += ["--nbd", f"tcp:127.0.0.1:{self.server.options.tcp}"]
        if self.server.options.ack != "nvs":
            words += ["--ack", self.server.options.ack]
        if self.server.degraded:
            words += ["--degraded"]
        if self.server.options.tls:
            folder = self.server.options.tls
            words += ["--tls-cert", f"{folder}/server-cert.pem", "--tls-key",
                      f"{folder}/server-key.pem", "--tls-client-ca", f"{folder}/ca-cert.pem",
                      "--tls-required"]
        return words

    def bench(self, uri, depth, connections, seconds, mebibytes):
        return [self.binary, "bench", uri, "--depth", str(depth), "--connections",
                str(connections), "--time", f"{seconds}s", "--bs", "4K", "--size",
                f"{mebibytes}M", "--format", "json"]

    @staticmethod
    def bench_row(said):
        """What `bench` says of writes."""
        return next(row for row in json.loads(said)["kinds"] if row["kind"] == "write")

    def status(self):
        """What `status` says of the server."""
        said = subprocess.run([self.binary, "status", self.VOLUME, "--config-dir",
                               self.server.folder, "--format", "json"],
                              capture_output=True, text=True, timeout=20, check=True)
        return json.loads(said.stdout)

    def has_bench(self):
        said = subprocess.run([self.binary, "bench", "--help"], capture_output=True, text=True,
                              timeout=20, check=False)
        return said.returncode == 0


class Destage(Server):
    """destage: level 5 over three files, NVS in a file. It has no limits: all tests must pass,
    and what it claims must be there."""

    name = "destage"
    claims = frozenset([
        "flush", "FUA", "trim", "zero", "fast zero", "cache", "DF", "multi-conn", "LIST",
        "structured replies", "base:allocation", "block sizes", "atomic writes",
    ])

    level = "5"
    members = 3

    def __init__(self, folder, options=None):
        super().__init__(folder, options)
        self.degraded = False
        self.members = self.options.members or self.members
        self.commands = DestageCommands(self)
        if not self.commands.binary.exists():
            raise Skip(f"{self.commands.binary} is not built")

    def prepare(self):
        # A little more than its share for each of the data disks: superblocks take some.
        data = self.members - (1 if self.level == "5" else 0)
        share = self.options.size // data + 4 * MIB
        disks = [self.folder / f"f{number}" for number in range(self.members)]
        for disk in disks:
            with open(disk, "wb") as file:
                file.truncate(share)
        nvs = Path(self.options.nvs_folder or self.folder) / "nvs"
        nvs = self.options.nvs_device or f"{nvs},size={self.options.nvs_bytes >> 20}M"
        words = self.commands.create(self.level, disks, nvs)
        words += self.options.create
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True,
                              timeout=120, check=False)
        if done.returncode != 0:
            raise Failure(f"destage create: exit {done.returncode}: {tail(done.stderr)}")

    def lose_member(self):
        """Deletes the first member's file."""
        (self.folder / "f0").unlink()
        self.degraded = True

    def command(self):
        return self.commands.serve()

    @property
    def tcp_uri(self):
        """The same export over TCP; the name is that of the tests' certificate."""
        where = f"//localhost:{self.options.tcp}/{self.export}"
        if self.options.tls:
            return f"nbds:{where}?tls-certificates={self.options.tls}"
        return f"nbd:{where}"


class DestageSingle(Destage):
    """destage over one file, as the peers have it."""

    name = "destage-single"
    level = "single"
    members = 1


class NbdkitFile(Server):
    """nbdkit with the file plugin."""

    name = "nbdkit"
    limits = {
        "hostile-fast-zero": "an unadvertised FAST_ZERO trips an assertion",
        "hostile-vanish": LEFT_EARLY,
        "hostile-never-reads": LEFT_EARLY,
        "hostile-random-requests": LEFT_EARLY,
    }

    def prepare(self):
        with open(self.folder / "data", "wb") as file:
            file.truncate(self.options.size)

    def plugin(self):
        return ["file", self.folder / "data"]

    def command(self):
        if shutil.which("nbdkit") is None:
            raise Skip("nbdkit is not installed")
        tls = ["--tls=require", f"--tls-certificates={self.options.tls}"]
        return (["nbdkit", "-f", "-t", "16", "-U", self.socket]
                + (tls if self.options.tls else []) + self.plugin())


class NbdkitMemory(NbdkitFile):
    """nbdkit with the memory plugin: keeps nothing, which shows that checks can fail."""

    name = "nbdkit-memory"
    keeps_data = False

    def prepare(self):
        pass

    def plugin(self):
        return ["memory", str(self.options.size)]


class NbdServer(Server):
    """nbd-server, which forks for each connection."""

    name = "nbd-server"
    export = "data"
    limits = {
        "nbdinfo-json": "it says size 0 in answer to an INFO that is not followed by GO",
        "hostile-malformed-options": "it does not answer a malformed GO",
    }
    daemon = None

    def prepare(self):
        if shutil.which("nbd-server") is None:
            raise Skip("nbd-server is not installed")
        with open(self.folder / "data", "wb") as file:
            file.truncate(self.options.size)
        self.write_config()

    def write_config(self):
        lines = ["[generic]", f"unixsock = {self.socket}", "allowlist = true",
                 "max_threads = 16"]
        if self.options.tls:
            lines += [f"certfile = {self.options.tls}/server-cert.pem",
                      f"keyfile = {self.options.tls}/server-key.pem",
                      f"cacertfile = {self.options.tls}/ca-cert.pem", "force_tls = true"]
        lines += [f"[{self.export}]", f"exportname = {self.folder}/data",
                  f"filesize = {self.options.size}", "flush = true", "fua = true",
                  "trim = true"]
        (self.folder / "config").write_text("\n".join(lines) + "\n", encoding="ascii")

    def command(self):
        return ["nbd-server", "-C", self.folder / "config", "-p", self.folder / "pid"]

    # It makes a daemon of itself (and without that serves one connection only): the process
    # to watch is the one that its file names, which leads a process group.

    @property
    def pid(self):
        return self.daemon

    def launch(self):
        self.daemon = None
        (self.folder / "pid").unlink(missing_ok=True)
        self.socket.unlink(missing_ok=True)
        subprocess.run([str(word) for word in self.command()], stdin=subprocess.DEVNULL,
                       capture_output=True, timeout=READY_SECONDS, check=False)
        if not wait_until(self.named, READY_SECONDS):
            raise Failure("nbd-server wrote no pid file")
        if not wait_until(self.ready, READY_SECONDS, step=0.01):
            self.kill9()
            raise Failure("nbd-server does not serve")
        return self.uri

    def named(self):
        try:
            self.daemon = int((self.folder / "pid").read_text(encoding="ascii"))
        except (OSError, ValueError):
            return False
        return True

    def alive(self):
        return self.daemon is not None and self.daemon in procfs.group(self.daemon)

    def signal_group(self, number):
        for pid in procfs.group(self.daemon):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def stop(self):
        os.kill(self.daemon, signal.SIGTERM)
        if not wait_until(lambda: not self.alive(), STOP_SECONDS):
            self.kill9()
            raise Failure(f"nbd-server did not stop within {STOP_SECONDS} s")
        return 0

    def kill9(self):
        if self.daemon is not None:
            self.signal_group(signal.SIGKILL)
            wait_until(lambda: not procfs.group(self.daemon), STOP_SECONDS)


class QemuNbd(Server):
    """qemu-nbd on a raw file, with as many clients as are measured, until it is stopped."""

    name = "qemu-nbd"

    def prepare(self):
        if shutil.which("qemu-nbd") is None:
            raise Skip("qemu-nbd is not installed")
        if self.options.tls:
            raise Skip("its adapter has no TLS")
        with open(self.folder / "data", "wb") as file:
            file.truncate(self.options.size)

    def command(self):
        return ["qemu-nbd", "--persistent", "--shared=64", "--format=raw", "--discard=unmap",
                f"--socket={self.socket}", self.folder / "data"]


SERVERS = {server.name: server for server in
           (Destage, DestageSingle, NbdkitFile, NbdkitMemory, NbdServer, QemuNbd)}
