"""What an operator does with the package, step by step, on a machine that is thrown away."""

import grp
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
import types
import urllib.request
from pathlib import Path

import t_files
from harness import Failure, Skip, equal, expect, run, wait_until
from unit import Supervisor, Systemd

HERE = Path(__file__).resolve().parent
DATA = Path("/var/lib/destage")
CONFIG = Path("/etc/destage/tank.toml")
DROP_INS = Path("/etc/systemd/system/destage@tank.service.d")
# What the operator has made: configuration and data.
OPERATORS = ("etc/destage/", "var/lib/destage/", str(DROP_INS)[1:], "srv/arrays")
MIB = 1 << 20
# What dpkg, man-db and systemd write about themselves.
OTHERS = ("var/lib/dpkg", "var/log", "var/cache/man", "var/lib/systemd", "var/cache/ldconfig",
          "etc/ld.so.cache", "run", "tmp", "var/tmp", "dev", "opt/destage-test", "root/.cache")


def said(text):
    print(text, flush=True)


def changed():
    """Every path that is not as it was before this machine began: the overlay's upper layer."""
    top, below = HERE / "upper", HERE / "lower"
    found = set()
    for folder, folders, files in os.walk(top):
        here = Path(folder).relative_to(top)
        folders[:] = [name for name in folders if not str(here / name).startswith(OTHERS)]
        found.update(str(here / name) for name in files)
        # Those in which something was changed are there too.
        found.update(f"{here / name}/" for name in folders if not (below / here / name).is_dir())
    return {path for path in found if not path.startswith(OTHERS)}


def make_loops():
    """Loop devices for the members; none where there are none."""
    if not Path("/dev/loop-control").exists():
        return False
    for number in range(64):
        node = Path(f"/dev/loop{number}")
        if not node.exists():
            os.mknod(node, 0o660 | stat.S_IFBLK, os.makedev(7, number))
    return True


class Devices:
    """Members: block devices where there are loop devices, else files."""

    def __init__(self):
        self.blocks = make_loops()
        self.loops = []

    def make(self, name):
        path = DATA / f"test-{name}"
        with open(path, "wb") as file:
            file.truncate(96 * MIB)
        if not self.blocks:
            return str(path)
        done = subprocess.run(["losetup", "--find", "--show", path], text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            said(f"SKIPPED: members as block devices: losetup: {done.stdout.strip()}")
            self.blocks = False
            return str(path)
        self.loops.append(done.stdout.strip())
        return self.loops[-1]

    def take_away(self):
        for loop in self.loops:
            run("losetup", "-d", loop, codes=None)


def status():
    return json.loads(run("destage", "status", "tank", "--format", "json"))


def processes():
    """Those that run the installed program, even when it is deleted."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/exe"):
        try:
            if os.readlink(entry).startswith("/usr/bin/destage"):
                found.append(int(entry.parent.name))
        except OSError:
            pass
    return found


def ready():
    try:
        with urllib.request.urlopen("http://127.0.0.1:9090/readyz", timeout=10) as answer:
            return answer.status == 200
    except OSError:
        return False


def process_status(pid):
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


class Drill:
    """The steps. Each says what it found, or raises."""

    def __init__(self, systemd):
        self.unit = Systemd("tank") if systemd else Supervisor("tank")
        self.systemd = systemd
        self.devices = Devices()
        folder = Path("/run/destage-test")
        folder.mkdir(exist_ok=True)
        self.case = types.SimpleNamespace(
            folder=folder, uri="nbd+unix:///tank?socket=/run/destage/tank.sock", seed=7)
        self.before = changed()
        self.files = {}

    def install(self):
        # What systemd and dpkg do with patterns is part of what is tested.
        run("dpkg", "-i", HERE / "destage.deb", timeout=120)
        installed = [Path(line) for line in run("dpkg", "-L", "destage").splitlines()]
        missing = [str(path) for path in installed if not path.exists()]
        expect(not missing, f"not installed: {missing}")
        for wanted in ("usr/bin/destage", "usr/lib/systemd/system/destage@.service"):
            # Else the comparison at the end would compare nothing.
            expect(wanted in changed(), f"the list of files does not know {wanted}")
        equal(processes(), [], "what runs after the installation")
        if self.systemd:
            units = run("systemctl", "list-units", "--all", "--plain", "--no-legend", "destage@*")
            equal(units.strip(), "", "units after the installation")
            problems = run("systemd-analyze", "verify", "destage@tank.service", codes=None)
            equal(problems.strip(), "", "systemd-analyze verify")
        said(f"installed {len(installed)} files and folders; nothing runs")

    def create(self):
        self.members = [self.devices.make(f"member{number}") for number in range(3)]
        words = [word for member in self.members for word in ("--disk", member)]
        words += ["--nvs", self.devices.make("nvs0"), "--nvs", f"{DATA}/test-nvs1,size=96M"]
        run("destage", "create", "tank", "--level", "5", *words)
        kind = "block devices" if self.devices.blocks else "files"
        said(f"created an array of three {kind} with a mirrored NVS")

    def start(self):
        self.unit.start()
        equal(status()["state"], "clean", "the array's state")
        maps = Path(f"/proc/{self.unit.pid}/maps").read_text(encoding="utf-8")
        expect("/dev/loop" not in maps, "a block device is mapped: its log is not durable")
        text = f"serves under {self.unit.kind}"
        if self.systemd:
            process = process_status(self.unit.pid)
            equal(int(process["CapEff"], 16), 0, "capabilities")
            equal((process["NoNewPrivs"], process["Seccomp"]), ("1", "2"), "NoNewPrivs, Seccomp")
            score = run("systemd-analyze", "security", "--no-pager", "destage@tank.service")
            text += "; " + score.strip().splitlines()[-1].strip(" →")
        said(text)

    def restart(self):
        """As an upgrade asks for, under a client that waits."""
        if shutil.which("qemu-io") is None:
            said("SKIPPED: a restart under QEMU: qemu-io is not installed")
            return
        image = ("driver=nbd,server.type=unix,server.path=/run/destage/tank.sock,export=tank,"
                 "reconnect-delay=60")
        client = subprocess.Popen(["qemu-io", "--image-opts", image], text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for command in ("write -P 1 0 1M", "flush"):
            print(command, file=client.stdin, flush=True)
        time.sleep(0.5)
        self.unit.stop()
        print("write -P 2 1M 1M", file=client.stdin, flush=True)
        time.sleep(0.5)
        self.unit.start()
        out, _ = client.communicate("read -P 1 0 1M\nread -P 2 1M 1M\nquit\n", timeout=60)
        done = [line for line in out.splitlines() if "1048576/1048576 bytes" in line]
        expect(len(done) == 4 and "fail" not in out, f"qemu-io over a restart: {out}")
        said("QEMU's NBD client waits while the server restarts, without an error")

    def settings(self):
        """The examples, put where they say: the page, an alarm command, drop-ins."""
        if not self.systemd:
            said("SKIPPED: the examples' settings: they are systemd's")
            return
        examples = Path("/usr/share/doc/destage/examples")
        text = (examples / "tank.env").read_text(encoding="utf-8")
        wanted = text.replace("#DESTAGE_OPTIONS", "DESTAGE_OPTIONS")
        expect(wanted != text, "tank.env has no alarm command to turn on")
        CONFIG.with_suffix(".env").write_text(wanted, encoding="utf-8")
        shutil.copy(examples / "alarm", CONFIG.with_name("alarm"))
        DROP_INS.mkdir(parents=True)
        shutil.copy(examples / "files-elsewhere.conf", DROP_INS)
        Path("/srv/arrays").mkdir(parents=True)
        group = (examples / "group.conf").read_text(encoding="utf-8")
        (DROP_INS / "group.conf").write_text(group.replace("libvirt-qemu", "disk"))
        run("systemctl", "daemon-reload")
        run("systemctl", "restart", self.unit.unit, timeout=60)
        # It answers from a copy that is made each second.
        expect(wait_until(ready, 10, 0.2), "/readyz does not become 200")
        about = os.stat("/run/destage/tank.sock")
        equal((about.st_gid, oct(about.st_mode & 0o777)), (grp.getgrnam("disk").gr_gid, "0o770"),
              "group and mode of the socket")
        equal(oct(os.stat("/run/destage/tank.control").st_mode & 0o777), "0o600",
              "mode of the control socket")
        record = ["destage", "trace", "record", "tank", "--time", "1s", "--out"]
        run(*record, "/srv/arrays/load.dtrc")
        refused = subprocess.run([*record, "/srv/load.dtrc"], stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True, check=False)
        expect(refused.returncode == 1 and "Read-only file system" in refused.stdout,
               f"written outside of what the unit may: {refused.stdout}")
        shutil.rmtree("/srv/arrays")
        Path("/srv/arrays").mkdir()
        said("the page, a group's socket and a folder elsewhere, as the examples have them")

    def file_system(self):
        """Over nbdfuse and a loop device; False where the kernel has no such thing."""
        try:
            self.stack = t_files.Stack(self.case)
            self.stack.attach()
        except Skip as skip:
            said(f"SKIPPED: the file system: {skip}")
            self.stack.detach() if hasattr(self, "stack") else None
            self.stack = None
            return False
        run("mkfs.ext4", "-q", "-F", self.stack.loop, timeout=60)
        self.stack.mount()
        return True

    def write(self, name):
        """Files in a folder, durable when this returns."""
        source = t_files.random.Random(name)
        folder = self.stack.root / name
        folder.mkdir()
        for number in range(60):
            size = source.choice([0, 1, 4096, 4097, 60000, 500000])
            (folder / f"f{number}").write_bytes(source.randbytes(size))
        run("sync", "-f", self.stack.root)
        for path, digest in t_files.digests(folder).items():
            self.files[f"{name}/{path}"] = digest

    def verify(self, when):
        """All files, read from the array: nothing of them is in the host's memory."""
        self.stack.unmount()
        self.stack.check("-f", "-n")
        self.stack.detach()
        self.stack.attach()
        self.stack.mount()
        equal(t_files.digests(self.stack.root), self.files, f"the files {when}")
        said(f"{len(self.files)} files are as written {when}; e2fsck finds nothing")

    def fail_and_replace(self):
        new = self.devices.make("new")
        run("destage", "fail", "tank", self.members[1])
        equal(status()["state"], "degraded", "the state with a disk failed")
        expect(wait_until(lambda: "member-failed" in self.unit.log(), 5), "no alarm in the log")
        if self.systemd:
            alerts = lambda: run("journalctl", "--no-pager", "-t", "destage", "-p", "alert")
            expect(wait_until(lambda: "tank: member-failed" in alerts(), 10, 0.2),
                   "the alarm command was not run outside of the service")
        self.write("degraded")
        run("destage", "set", "tank", "--rebuild", "window=16,depth=1,share=25")
        replace = subprocess.Popen(["destage", "replace", "tank", self.members[1], new],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        expect(wait_until(lambda: status()["state"] == "rebuilding", 10), "it is not rebuilt")
        self.write("rebuilding")
        if replace.poll() is not None:
            said("the rebuild was over before all was written")
        out, _ = replace.communicate(timeout=60)
        equal(replace.returncode, 0, f"destage replace: {out}")
        equal(status()["state"], "clean", "the state after the rebuild")
        expect(new in CONFIG.read_text(encoding="utf-8"), "the configuration names the new disk")
        self.verify("after a disk was failed and replaced")
        # With another disk failed, the files read right only if the new disk is complete.
        run("destage", "fail", "tank", self.members[0])
        self.verify("with another disk failed")
        spare = self.devices.make("spare")
        run("destage", "spare", "tank", "add", spare)
        expect(wait_until(lambda: status()["state"] == "clean", 30), "the spare was not rebuilt")
        said("a spare took the other's place")

    def kill(self):
        """kill -9 with dirty pages; systemd restarts it."""
        self.stack.unmount()
        self.stack.detach()
        first = self.unit.pid
        os.kill(first, signal.SIGKILL)
        if self.systemd:
            expect(wait_until(lambda: self.unit.running() and self.unit.pid not in (0, first), 30),
                   "systemd did not restart it")
        else:
            self.unit.process.wait(10)
            self.unit.start()
        self.stack.attach()
        self.stack.mount()
        self.verify("after kill -9 of the server")

    def upgrade(self):
        """The same version again, which goes the same way."""
        first = self.unit.pid
        out = run("dpkg", "-i", HERE / "destage.deb", timeout=120)
        equal((self.unit.pid, self.unit.running()), (first, True), "the server over an upgrade")
        if self.systemd:
            expect("systemctl restart destage@tank" in out, f"postinst did not tell: {out}")
        said("an upgrade leaves the server running, and says so")

    def remove(self):
        self.stack.unmount()
        self.stack.detach()
        run("dpkg", "-r", "destage", timeout=120)
        expect(wait_until(lambda: not processes(), 5), f"still runs: {processes()}")
        if self.systemd:
            equal(self.unit.show("Result"), "success", "how the server ended")
        left = run("find", "/run/destage", codes=None)
        equal(left, "", "what is left in /run/destage")
        left = sorted(changed() - self.before)
        allowed = [path for path in left if path.startswith(OPERATORS)]
        equal([path for path in left if path not in allowed], [], "what the package has left")
        said("removed; left are: " + " ".join(path for path in allowed if not path.endswith("/")))

    def again(self):
        """What was left is all that is needed; a purge does not touch it either."""
        run("dpkg", "-i", HERE / "destage.deb", timeout=120)
        self.unit.start()
        self.stack.attach()
        self.stack.mount()
        self.verify("after the package was removed and installed again")
        self.stack.unmount()
        self.stack.detach()
        self.unit.stop()
        kept = sorted(path for path in changed() if "destage/" in path)
        out = run("dpkg", "--purge", "destage", timeout=120)
        expect("tank.toml" in out, f"the purge does not say what is left: {out}")
        there = changed()
        lost = [path for path in kept if path.startswith(("etc/destage/t", "var/lib/destage/t"))
                and path not in there]
        equal(lost, [], "configuration and data that the purge took")
        said("purged; configuration and data are left, and said to be")

    def steps(self):
        begin = time.monotonic()
        self.install()
        self.create()
        self.start()
        self.restart()
        self.settings()
        if self.file_system():
            self.write("healthy")
            self.fail_and_replace()
            self.kill()
            self.upgrade()
            self.remove()
            self.again()
        else:
            raise Skip("fail, replace and remove need the file system")
        said(f"all of it passed in {time.monotonic() - begin:.0f} s")


def main():
    t_files.HANG_SECONDS = 200
    drill = Drill("--systemd" in sys.argv[1:])
    try:
        drill.steps()
        return 0
    except (Failure, subprocess.TimeoutExpired, OSError) as error:
        said(f"FAILED: {error}")
        try:
            said(drill.unit.log()[-4000:])
        except (Failure, OSError):
            pass
        return 1
    finally:
        if getattr(drill, "stack", None):
            drill.stack.detach()
        drill.devices.take_away()


if __name__ == "__main__":
    sys.exit(main())
