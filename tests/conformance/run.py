#!/usr/bin/python3
"""The conformance run: public NBD clients against a server, one line a test.

    python3 tests/conformance/run.py --server destage
    python3 tests/conformance/run.py --server nbdkit --only hostile,qemu

Every test has a server and a folder of its own. Exit 1 if any test failed.
"""

import argparse
import random
import shutil
import socket
import tempfile
import time
from pathlib import Path

import harness
import servers
import t_files
import t_fio
import t_hostile
import t_libnbd
import t_nbdsh
import t_qemu
import t_rebuild
import t_restart
import t_tls
from harness import Case, Failure, Skip, TimeOut, end_on_sigterm, limited, say

# Importing a module registers its tests.
MODULES = (t_libnbd, t_nbdsh, t_qemu, t_fio, t_files, t_restart, t_rebuild, t_tls,
           t_hostile)


def arguments():
    parser = argparse.ArgumentParser(description="Conformance of an NBD server.")
    parser.add_argument("--server", choices=sorted(servers.SERVERS), default="destage")
    parser.add_argument("--destage", type=Path, metavar="PATH", help="destage's binary")
    parser.add_argument("--only", default="", help="words, one of which a test's name has")
    parser.add_argument("--seed", type=int, help="of all that is random (default: any)")
    parser.add_argument("--size", type=int, default=256, metavar="MIB")
    parser.add_argument("--keep", action="store_true", help="keep the folders of failed tests")
    parser.add_argument("--list", action="store_true", help="print the tests' names")
    return parser.parse_args()


def folder_for(entry):
    # Unix sockets bear names of about 100 bytes, hence a short one.
    return Path(tempfile.mkdtemp(prefix=f"nbd-{entry.name}-"[:40]))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(entry, options, folder):
    """The server of a test, running."""
    more = {"ack": entry.options.get("ack", "nvs"), "members": entry.options.get("members")}
    if entry.options.get("tls"):
        more["tls"] = t_tls.certificates(folder)
    if entry.options.get("tcp"):
        more["tcp"] = free_port()
    made = servers.Options(options.destage, options.size << 20, **more)
    server = servers.SERVERS[options.server](folder / "s", made)
    server.start()
    return server


def carry_out(entry, options, folder, seed):
    """A whole test: start, the test itself, still alive, clean stop. Gives its notes."""
    server = start(entry, options, folder)
    case = Case(server, folder, seed)
    try:
        entry.function(case)
        if not server.alive():
            raise Failure(f"{server.name} is gone: {log_tail(server)}")
        server.stop()
    except Skip:
        raise
    except Exception as failure:
        time.sleep(0.3)  # A server that is about to end has hung up first.
        if server.alive():
            raise
        what = f"{failure}" or type(failure).__name__
        raise Failure(f"{what}; {server.name} is gone: {log_tail(server)}") from failure
    finally:
        server.kill9()
    return case.notes


def log_tail(server):
    return harness.tail(server.log.read_text(errors="replace")) if server.log.exists() else ""


def outcome(entry, options, seed):
    """(word, text) of a test."""
    folder = folder_for(entry)
    began = time.monotonic()
    keep = False
    try:
        notes = limited(carry_out, entry.seconds, entry, options, folder, seed)
        took = f"{time.monotonic() - began:.1f} s"
        return "ok", ", ".join([took] + notes)
    except Skip as reason:
        return "SKIPPED", str(reason)
    except TimeOut:
        keep = options.keep
        return failed(entry, options, f"not done after {entry.seconds} s")
    except Exception as error:  # Whatever goes wrong in a test is that test's failure.
        keep = options.keep
        kind = "" if isinstance(error, Failure) else f"{type(error).__name__}: "
        return failed(entry, options, f"{kind}{error}")
    finally:
        if keep:
            say(f"  kept {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def failed(entry, options, reason):
    limit = servers.SERVERS[options.server].limits.get(entry.name)
    if limit:
        return "LIMIT", f"{reason} (known of {options.server}: {limit})"
    return "FAILED", reason


def main():
    options = arguments()
    end_on_sigterm()
    words = [word for word in options.only.split(",") if word]
    chosen = [t for t in harness.TESTS if not words or any(w in t.name for w in words)]
    if options.list:
        for entry in chosen:
            print(entry.name)
        return 0
    seed = options.seed if options.seed is not None else random.randrange(1 << 32)
    say(f"server {options.server}, {options.size} MiB, seed {seed}")
    counts = {}
    for entry in chosen:
        word, text = outcome(entry, options, seed)
        counts[word] = counts.get(word, 0) + 1
        say(f"ok {entry.name} {text}" if word == "ok" else f"{word} {entry.name}: {text}")
    parts = [f"{counts.get(word, 0)} {word}" for word in ("ok", "SKIPPED", "FAILED", "LIMIT")]
    say(f"{len(chosen)} tests: " + ", ".join(parts))
    # A run that tested nothing has not succeeded.
    return 1 if counts.get("FAILED") or not counts.get("ok") else 0


if __name__ == "__main__":
    raise SystemExit(main())
