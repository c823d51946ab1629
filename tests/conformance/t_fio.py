"""fio's nbd engine with verification."""

import json

from harness import Skip, expect, need, run, test


def fio(case, *options, jobs=1, seconds=90):
    """A fio run that must be without error; its parsed report."""
    need("fio")
    if "nbd" not in run("fio", "--enghelp"):
        raise Skip("fio has no nbd engine")
    words = ["fio", "--name=verify", "--ioengine=nbd", f"--uri={case.uri}", "--output-format=json",
             f"--numjobs={jobs}", "--offset_increment=24m", "--size=24m", "--verify_fatal=1",
             "--verify_state_save=0", f"--randseed={case.seed}", *options]
    said = run(*words, timeout=seconds, env={"PATH": "/usr/bin:/bin", "HOME": "/",
                                             "TMPDIR": str(case.folder)})
    report = json.loads(said[said.index("{"):])
    for job in report["jobs"]:
        expect(job["error"] == 0, f"fio: error {job['error']}")
    return report["jobs"]


def wrote(jobs):
    return sum(job["write"]["total_ios"] for job in jobs)


def read(jobs):
    return sum(job["read"]["total_ios"] for job in jobs)


def verified(case, jobs):
    """As much must have been read back as was written."""
    expect(read(jobs) >= wrote(jobs) > 0, f"{wrote(jobs)} written, {read(jobs)} verified")
    case.note(f"{wrote(jobs)} writes verified")


@test("fio-verify-crc32c", 120)
def verify(case):
    verified(case, fio(case, "--rw=randwrite", "--bs=4k", "--iodepth=32", "--verify=crc32c",
                       "--do_verify=1"))


@test("fio-verify-four-connections", 120)
def verify_connections(case):
    verified(case, fio(case, "--rw=randwrite", "--bs=4k", "--iodepth=16", "--verify=crc32c",
                       "--do_verify=1", jobs=4))


@test("fio-verify-mixed-sizes", 120)
def verify_sizes(case):
    verified(case, fio(case, "--rw=randwrite", "--bsrange=4k-64k", "--bs_unaligned",
                       "--iodepth=16", "--verify=crc32c", "--do_verify=1",
                       "--fsync=32", jobs=2))


@test("fio-verify-trims", 120)
def trims(case):
    """Each place is trimmed, then written: no errors. (fio cannot verify this load.)"""
    jobs = fio(case, "--rw=randtrimwrite", "--bs=8k", "--iodepth=8", jobs=2)
    expect(sum(job["trim"]["total_ios"] for job in jobs) > 0, "fio trimmed nothing")
    case.note(f"{sum(job['trim']['total_ios'] for job in jobs)} trims")
