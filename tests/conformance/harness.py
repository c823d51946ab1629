"""Named tests, how they end, and the programs that they run."""

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
MIB = 1 << 20
KIB = 1 << 10

TESTS = []


class Skip(Exception):
    """What the test needs is not here; the text says what."""


class Failure(Exception):
    """The server did not do what it should."""


class TimeOut(Exception):
    """A test took longer than it may."""


class Test:
    """A function of a `Case` with its name and the longest time it may take."""

    def __init__(self, name, function, seconds, options):
        self.name = name
        self.function = function
        self.seconds = seconds
        self.options = options


class Case:
    """What a test is given: a running server, a folder of its own, a seed."""

    def __init__(self, server, folder, seed):
        self.server = server
        self.folder = folder
        self.seed = seed
        self.notes = []

    @property
    def uri(self):
        return self.server.uri

    def note(self, text):
        """A figure to be printed behind the test's line."""
        self.notes.append(text)

    def features(self, offered):
        """Of {feature: offered}: fails for what is claimed and absent, notes what else is."""
        absent = [feature for feature, there in offered.items() if not there]
        wrong = [feature for feature in absent if feature in self.server.claims]
        expect(not wrong, f"{self.server.name} should offer {', '.join(wrong)}")
        if absent:
            self.note("without " + ", ".join(absent))

    def claim(self, offered, feature):
        """Continues if `offered`; else fails where the server claims the feature, and skips
        where it does not (which is how peers with fewer features run the same tests)."""
        if offered:
            return
        if feature in self.server.claims:
            raise Failure(f"{self.server.name} should offer {feature} and does not")
        raise Skip(f"{self.server.name} does not offer {feature}")


def test(name, seconds=60, **options):
    """Registers a function as a named test. Options go to the server's adapter (`tls=True`)."""

    def register(function):
        TESTS.append(Test(name, function, seconds, options))
        return function

    return register


def expect(condition, text):
    """Fails with the text unless the condition holds (an assert that -O leaves in place)."""
    if not condition:
        raise Failure(text)


def equal(found, wanted, what):
    """Fails unless both are the same."""
    expect(found == wanted, f"{what}: {found!r}, expected {wanted!r}")


def need(*programs):
    """Skips where a program is not installed."""
    for program in programs:
        if shutil.which(program) is None:
            raise Skip(f"{program} is not installed")


def tail(text, lines=3):
    """The last lines of a text as one line."""
    kept = [line.strip() for line in text.strip().splitlines()][-lines:]
    return " | ".join(kept)[-400:]


def run(*words, timeout=60, codes=(0,), env=None):
    """Runs a program to its end; gives its standard output as text."""
    return finish(words, timeout, codes, env).stdout


def finish(words, timeout=60, codes=(0,), env=None):
    """Runs a program to its end; gives all there is of it, with both outputs as text."""
    words = [str(word) for word in words]
    need(words[0])
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, errors="replace", env=env)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired as error:
        raise Failure(f"{words[0]} did not end within {timeout} s") from error
    finally:
        give_up(process)
    done = subprocess.CompletedProcess(words, process.returncode, out, err)
    if codes is not None and done.returncode not in codes:
        said = tail(err or out)
        raise Failure(f"{' '.join(words)[:160]}: exit {done.returncode}: {said}")
    return done


def give_up(process):
    """Kills a program that still runs; waits for it only briefly, since one that waits for a
    device of a server that hangs cannot be killed before the server is."""
    if process.poll() is None:
        process.kill()
        try:
            process.communicate(timeout=2)
        except subprocess.TimeoutExpired:
            pass


def wait_until(condition, seconds, step=0.02):
    """Polls until the condition holds; whether it did."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(step)
    return True


def ring(_signal, _frame):
    raise TimeOut()


def limited(function, seconds, *arguments):
    """Calls a function, stopped by an alarm when it takes too long."""
    signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        return function(*arguments)
    finally:
        signal.alarm(0)


def end_on_sigterm():
    """SIGTERM ends the run as an exception does: what was started is stopped."""

    def leave(_signal, _frame):
        raise SystemExit(1)

    signal.signal(signal.SIGTERM, leave)


def say(text):
    """Prints a line at once, so that a reader of a pipe sees how far a run is."""
    print(text)
    sys.stdout.flush()
