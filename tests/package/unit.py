"""Starting and stopping what a unit says: by systemd, or by a supervisor that does as much of it
as the test needs (ExecStart, its folder, readiness, the end)."""

import os
import shlex
import signal
import socket
import subprocess
from pathlib import Path

from harness import expect, run

UNIT_FILE = Path("/usr/lib/systemd/system/destage@.service")


class Systemd:
    """The unit under systemd."""

    kind = "systemd"

    def __init__(self, name):
        self.unit = f"destage@{name}"

    def show(self, what):
        return run("systemctl", "show", "--value", "-p", what, self.unit).strip()

    @property
    def pid(self):
        return int(self.show("MainPID"))

    def running(self):
        return self.show("ActiveState") == "active"

    def start(self):
        """Returns when the server has said that it is ready."""
        run("systemctl", "start", self.unit, timeout=60)

    def stop(self):
        run("systemctl", "stop", self.unit, timeout=60)
        expect(self.show("Result") == "success", "the unit did not end well")

    def log(self):
        return run("journalctl", "--no-pager", "-u", self.unit)


class Supervisor:
    """The unit's ExecStart, run as systemd runs it, but without its limits."""

    kind = "a supervisor"

    def __init__(self, name):
        self.name = name
        self.process = None
        self.errors = Path(f"/run/destage-test/{name}.log")
        self.errors.parent.mkdir(exist_ok=True)

    def words(self):
        lines = UNIT_FILE.read_text(encoding="utf-8").splitlines()
        start = next(line for line in lines if line.startswith("ExecStart="))
        text = start.removeprefix("ExecStart=").replace("%i", self.name)
        return shlex.split(text.replace("$DESTAGE_OPTIONS", ""))

    @property
    def pid(self):
        return self.process.pid

    def running(self):
        return self.process is not None and self.process.poll() is None

    def start(self):
        Path("/run/destage").mkdir(exist_ok=True)
        ready = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        path = f"/run/destage-test/{self.name}.notify"
        Path(path).unlink(missing_ok=True)
        ready.bind(path)
        ready.settimeout(60)
        with open(self.errors, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                self.words(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={"NOTIFY_SOCKET": path, "PATH": os.environ["PATH"]})
        expect("READY=1" in ready.recv(4096).decode(), "the server said something else")
        ready.close()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        expect(self.process.wait(60) == 0, "the server did not end well")

    def log(self):
        return self.errors.read_text(encoding="utf-8")
