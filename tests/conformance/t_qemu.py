"""qemu-img and qemu-io: the client most likely to be met."""

import json
import re

from harness import MIB, equal, expect, run, test
from t_libnbd import export_size, random_file, same_bytes


def io(case, *commands, codes=(0,)):
    """qemu-io with commands; its output, which must tell of no error."""
    words = [word for command in commands for word in ("-c", command)]
    said = run("qemu-io", "-f", "raw", "-d", "unmap", *words, case.uri, codes=codes)
    for wrong in ("failed", "verification", "error", "Invalid"):
        expect(codes != (0,) or wrong not in said, f"qemu-io: {said.strip()[-300:]}")
    return said


@test("qemu-img-info")
def info(case):
    said = json.loads(run("qemu-img", "info", "-f", "raw", "--output=json", case.uri))
    equal(said["virtual-size"], export_size(case), "size")


@test("qemu-img-map")
def mapped(case):
    io(case, "write -P 7 1M 1M")
    said = json.loads(run("qemu-img", "map", "-f", "raw", "--output=json", case.uri))
    at = 0
    for entry in said:
        equal(entry["start"], at, "start of an extent")
        at += entry["length"]
    equal(at, export_size(case), "sum of the extents")
    inside = [e for e in said if e["start"] < 2 * MIB and e["start"] + e["length"] > MIB]
    expect(all(e["data"] for e in inside), f"written data is mapped as a hole: {inside}")


@test("qemu-img-convert", 150)
def convert(case):
    total = export_size(case)
    there = random_file(case, "there", min(total, 64 * MIB))
    back = case.folder / "back"
    with open(there, "r+b") as file:
        file.truncate(total)
    run("qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", "-W", "-m", "8", there, case.uri,
        timeout=100)
    run("qemu-img", "compare", "-f", "raw", "-F", "raw", there, case.uri, timeout=100)
    run("qemu-img", "convert", "-f", "raw", "-O", "raw", "-m", "8", case.uri, back, timeout=100)
    same_bytes(there, back, total, "qemu-img convert")


@test("qemu-img-convert-target-is-zero", 150)
def convert_qcow2(case):
    source = random_file(case, "raw", 16 * MIB)
    image = case.folder / "image.qcow2"
    run("qemu-img", "convert", "-f", "raw", "-O", "qcow2", source, image)
    run("qemu-img", "convert", "-n", "--target-is-zero", "-f", "qcow2", "-O", "raw", image,
        case.uri)
    run("qemu-img", "convert", "-f", "raw", "-O", "raw", case.uri, case.folder / "back",
        timeout=100)
    same_bytes(source, case.folder / "back", 16 * MIB, "convert from qcow2")


@test("qemu-img-compare-differs")
def compare(case):
    """compare must see one byte that differs, or its agreement elsewhere says nothing."""
    zeros = case.folder / "zeros"
    with open(zeros, "wb") as file:
        file.truncate(export_size(case))
    run("qemu-img", "compare", "-f", "raw", "-F", "raw", zeros, case.uri)
    io(case, "write -P 1 5M 1")
    run("qemu-img", "compare", "-f", "raw", "-F", "raw", zeros, case.uri, codes=(1,))


@test("qemu-img-bench", 120)
def bench(case):
    for words in (["-w"], ["-w", "--flush-interval=64"], []):
        said = run("qemu-img", "bench", "-f", "raw", "-c", "5000", "-d", "32", "-s", "4096",
                   *words, case.uri, timeout=60)
        took = re.search(r"completed in ([0-9.]+) seconds", said)
        expect(took, f"qemu-img bench: {said}")
        case.note(f"{' '.join(words) or 'read'} {5000 / float(took[1]):.0f}/s")


@test("qemu-io-pattern")
def pattern(case):
    io(case, "write -P 0x5a 0 1M", "write -P 0xa5 1M 64k", "flush", "read -P 0x5a 0 1M",
       "read -P 0xa5 1M 64k", "aio_write -P 3 8M 1M", "aio_write -P 4 9M 1M", "aio_flush",
       "read -P 3 8M 1M", "read -P 4 9M 1M")
    said = run("qemu-io", "-f", "raw", "-c", "read -P 1 0 512", case.uri, codes=(0, 1))
    expect("verification" in said.lower(), "qemu-io sees no difference where there is one")


@test("qemu-io-fua")
def fua(case):
    io(case, "write -f -P 9 64k 64k", "read -P 9 64k 64k", "write -z -f 64k 4k", "read -P 0 64k 4k",
       "read -P 9 68k 60k")


@test("qemu-io-zero")
def zero(case):
    io(case, "write -P 1 0 4M", "write -z 1M 1M", "write -z -u 3M 1M", "read -P 1 0 1M",
       "read -P 0 1M 1M", "read -P 1 2M 1M", "read -P 0 3M 1M")


@test("qemu-io-fast-zero")
def fast_zero(case):
    """`write -n` fails cleanly where zeroes would be slow, and zeros otherwise."""
    io(case, "write -P 1 0 1M")
    io(case, "write -z -n 0 1M", codes=(0, 1))
    said = run("qemu-io", "-f", "raw", "-c", "read -P 0 0 1M", case.uri, codes=(0, 1))
    if "verification" in said.lower():
        io(case, "read -P 1 0 1M")
        case.note("refused")


@test("qemu-io-discard")
def discard(case):
    io(case, "write -P 2 0 4M", "discard 1M 1M", "read -P 2 0 1M", "read -P 2 2M 2M",
       "write -P 3 1M 1M", "read -P 3 1M 1M")


@test("qemu-io-unaligned")
def unaligned(case):
    io(case, "write -P 1 0 64k", "write -P 2 1 1", "write -P 3 511 2", "write -P 4 4095 4099",
       "read -P 1 0 1", "read -P 2 1 1", "read -P 1 2 509", "read -P 3 511 2",
       "read -P 4 4095 4099", "read -P 1 8194 57342", "write -z 9001 777", "read -P 0 9001 777",
       "read -P 1 9778 1000")
