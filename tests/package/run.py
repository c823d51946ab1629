#!/usr/bin/python3
"""The Debian package on a machine of its own: installed, served, a disk replaced, removed.

    python3 tests/package/run.py --deb target/debian/destage_0.1.0-1_amd64.deb

The machine is this one's files under an overlay in memory, so nothing of it is changed. Where
systemd-nspawn is installed a systemd of its own runs there, and the unit is started by it; else
what the unit says is run in a chroot by a small supervisor. Needs root; skips, saying so, where
the kernel does not do it.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
CONFORMANCE = HERE.parent / "conformance"
# Where the test's own files are in the machine.
PLACE = Path("opt/destage-test")
DEVICES = ["/dev/fuse", "/dev/loop-control"]
TIMEOUT = 240

UNIT = """[Unit]
Description=Test of the package
SuccessAction=exit
FailureAction=exit

[Service]
Type=oneshot
ExecStart=/usr/bin/python3 -B /{place}/inside.py --systemd
StandardOutput=append:/{place}/out
StandardError=append:/{place}/out
"""


class Skip(Exception):
    """What is missing here."""


def quiet(*words):
    return subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)


class Machine:
    """The files of this machine, as a copy that is written on use."""

    def __init__(self, folder):
        self.folder = folder
        self.layers = folder / "layers"
        self.root = folder / "root"
        self.upper = self.layers / "upper"
        self.mounted = []

    def mount(self, *words):
        done = quiet("mount", *words)
        if done.returncode != 0:
            raise Skip(f"mount {words[-1]}: {done.stdout.strip()}")
        self.mounted.append(words[-1])

    def build(self, package):
        for folder in (self.layers, self.root):
            folder.mkdir()
        self.mount("-t", "tmpfs", "-o", "size=3G,mode=755", "tmpfs", str(self.layers))
        (self.layers / "work").mkdir()
        self.upper.mkdir()
        options = f"lowerdir=/,upperdir={self.upper},workdir={self.layers}/work"
        self.mount("-t", "overlay", "-o", options, "overlay", str(self.root))
        for needed in ("usr/bin/dpkg", "var/lib/dpkg/status", "etc", "usr/bin/python3"):
            if not (self.root / needed).exists():
                raise Skip(f"/{needed} is not on the file system of /")
        status = quiet("dpkg", "--root", str(self.root), "-s", "destage").stdout
        if "Status: install ok" in status:
            raise Skip("a destage package is installed here")
        self.copy(package)

    def copy(self, package):
        place = self.root / PLACE
        place.mkdir(parents=True)
        (place / "upper").mkdir()
        (place / "lower").mkdir()
        shutil.copy(package, place / "destage.deb")
        for file in [*HERE.glob("*.py"), CONFORMANCE / "harness.py", CONFORMANCE / "t_files.py"]:
            shutil.copy(file, place)

    def boot(self):
        """Under a systemd of its own; its exit code."""
        unit = self.root / "etc/systemd/system/destage-test.service"
        unit.write_text(UNIT.format(place=PLACE))
        words = ["systemd-nspawn", "--quiet", "-D", self.root, "--boot", "--register=no",
                 "--keep-unit", "--private-network", "--link-journal=no", "--console=pipe",
                 "--machine=destage-test", f"--bind-ro={self.upper}:/{PLACE}/upper",
                 f"--bind-ro=/:/{PLACE}/lower:norbind"]
        words += [f"--bind={device}" for device in DEVICES if Path(device).exists()]
        words += ["systemd.unit=destage-test.service"]
        with open(self.folder / "boot", "w", encoding="utf-8") as log:
            return subprocess.run(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                  timeout=TIMEOUT, check=False).returncode

    def chroot(self):
        """Without systemd; the exit code."""
        place = self.root / PLACE
        self.mount("--bind", "-o", "ro", str(self.upper), str(place / "upper"))
        self.mount("--bind", "-o", "ro", "/", str(place / "lower"))
        self.mount("--rbind", "--make-rprivate", "/dev", str(self.root / "dev"))
        for folder in ("run", "tmp"):
            self.mount("-t", "tmpfs", "tmpfs", str(self.root / folder))
        words = ["unshare", "--mount", "--pid", "--fork", "--kill-child",
                 f"--mount-proc={self.root}/proc", "chroot", self.root,
                 "/usr/bin/python3", "-B", f"/{PLACE}/inside.py"]
        with open(place / "out", "w", encoding="utf-8") as log:
            return subprocess.run(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                  timeout=TIMEOUT, check=False).returncode

    def said(self):
        out = self.root / PLACE / "out"
        if out.exists():
            return out.read_text(encoding="utf-8", errors="replace")
        boot = self.folder / "boot"
        return boot.read_text(errors="replace") if boot.exists() else "it did not begin\n"

    def take_away(self):
        for line in quiet("losetup", "--list", "--noheadings", "-O", "NAME,BACK-FILE").stdout.splitlines():
            device, file = line.split(None, 1)
            # As the machine names them, so not to be mistaken for this machine's.
            if file.startswith(("/var/lib/destage/test-", "/run/destage-test/", str(self.folder))):
                quiet("losetup", "-d", device)
        for path in reversed(self.mounted):
            if quiet("umount", "-R", path).returncode != 0:
                quiet("umount", "-R", "-l", path)


def test(arguments):
    if os.geteuid() != 0:
        raise Skip("mounting needs root")
    if "overlay" not in Path("/proc/filesystems").read_text(encoding="utf-8"):
        quiet("modprobe", "overlay")
    folder = Path(tempfile.mkdtemp(prefix="destage-package-", dir="/var/tmp"))
    machine = Machine(folder)
    try:
        machine.build(arguments.deb)
        if shutil.which("systemd-nspawn") and not arguments.no_systemd:
            code = machine.boot()
        else:
            print("without systemd: systemd-nspawn is not installed, or was not wanted")
            code = machine.chroot()
        said = machine.said()
        print(said, end="")
        # The code alone may be the container's.
        return 0 if code == 0 and "\nall of it passed" in said else 1
    finally:
        machine.take_away()
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--deb", required=True, help="the package")
    parser.add_argument("--no-systemd", action="store_true", help="the supervisor in any case")
    arguments = parser.parse_args()
    try:
        code = test(arguments)
    except Skip as skip:
        print(f"SKIPPED: the package test: {skip}")
        return 0
    except subprocess.TimeoutExpired:
        print(f"the machine did not end within {TIMEOUT} s")
        code = 1
    print(f"{1 - code} passed, {code} failed")
    return code


if __name__ == "__main__":
    sys.exit(main())
