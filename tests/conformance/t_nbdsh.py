"""Cases that nbdsh carries out (nbdsh_cases.py), each in a process of its own: libnbd waits
without limit, and a time-out must be able to end it."""

import os

from harness import HERE, Failure, Skip, finish, tail, test

# Named after the functions of nbdsh_cases.py, which is read by nbdsh's own Python.
NAMES = [
    "structured", "contexts", "status_follows_writes", "fua", "trim", "zero", "fast_zero", "cache",
    "unaligned", "edges", "beyond_end", "write_32m", "write_64m", "pipelined",
    "flush_on_another", "read_after_write_on_another", "simple_replies", "df",
]
SKIPPED, FAILED = 77, 1


def carry_out(case, name):
    # nbdsh runs the first python3 of the path; libnbd's module is the distribution's.
    env = dict(os.environ, PYTHONPATH=str(HERE), PYTHONDONTWRITEBYTECODE="1",
               PATH="/usr/bin:" + os.environ["PATH"])
    call = f"import nbdsh_cases; nbdsh_cases.main(h, {name!r}, {case.uri!r}, {case.seed})"
    done = finish(["nbdsh", "-c", call], 100, (0, FAILED, SKIPPED), env)
    if done.returncode == SKIPPED:
        case.claim(False, tail(done.stdout, 1))
        raise Skip(tail(done.stdout, 1))
    if done.returncode == FAILED:
        raise Failure(tail(done.stderr or done.stdout))
    if "done" not in done.stdout:
        raise Failure(f"nbdsh ended early: {tail(done.stdout)}")


def register(name):
    @test("nbdsh-" + name.replace("_", "-"), 110)
    def through_nbdsh(case):
        carry_out(case, name)


for each in NAMES:
    register(each)
