"""A served array for the browser tests: five disks, load, the page."""

import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path


class Array:
    """Created, served with a page, loaded; all of it ends with `close`."""

    def __init__(self, destage, emulated=False, speed=1):
        self.destage = str(destage)
        base = "/dev/shm" if Path("/dev/shm").is_dir() else None
        self.folder = Path(tempfile.mkdtemp(prefix="destage-page-", dir=base))
        self.processes = []
        disks = []
        for number in range(5):
            if emulated:
                disks.append(self.emulate(number, speed))
            else:
                disks.append(f"{self.folder}/d{number},size=64M")
        more = ["--assume-clean"] if emulated else []
        nvs = f"{self.folder}/nvs,size=24M"
        words = [word for disk in disks for word in ("--disk", disk)]
        self.run("create", "tank", "--level", "5", *words, "--nvs", nvs, *more,
                 "--read-cache", "vdf-lru", "--read-cache-size", "8M")
        self.serve()

    def emulate(self, number, speed):
        socket = self.folder / f"disk{number}.sock"
        self.start(
            "emulate", "stow-ref", "--size", "300M", "--speed", str(speed), "--nbd", f"unix:{socket}"
        )
        wait(socket.exists)
        return f"nbd+unix:///stow-ref?socket={socket}"

    def start(self, *words, **options):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen([self.destage, *words], **{**quiet, **options})
        self.processes.append(process)
        return process

    def run(self, *words):
        done = subprocess.run(
            [self.destage, *words, "--config-dir", str(self.folder)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"destage {words}: {done.stderr}")
        return done.stdout

    def serve(self):
        log = open(self.folder / "serve.log", "wb")  # noqa: SIM115
        self.start(
            "serve", "tank", "--nbd", f"unix:{self.folder}/nbd.sock", "--what-if",
            "--http", "127.0.0.1:0", "--config-dir", str(self.folder), stderr=log,
        )
        said = lambda: (self.folder / "serve.log").read_text()  # noqa: E731
        wait(lambda: "serving on" in said())
        self.url = re.search(r"page on (http://\S+/)", said())[1]
        self.token = (self.folder / "tank.token").read_text().strip()

    def load(self, *words):
        """Load until `close`, or until it is terminated."""
        uri = f"nbd+unix:///?socket={self.folder}/nbd.sock"
        return self.start("bench", uri, "--time", "10m", *words)

    def close(self):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def wait(condition, seconds=20, what="it"):
    """Waits until the condition holds; its value."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"waited {seconds} s for {what}")
