"""nbdinfo, nbdcopy and nbddump of libnbd."""

import json
import random
import re

from harness import KIB, MIB, Skip, equal, expect, need, run, test
import wire


def random_file(case, name, count):
    """A file of `count` bytes with stretches of zeros in it, from the case's seed."""
    source = random.Random(case.seed)
    path = case.folder / name
    with open(path, "wb") as file:
        left = count
        while left:
            piece = min(left, source.randrange(1, 2 * MIB))
            file.write(bytes(piece) if source.random() < 0.3 else source.randbytes(piece))
            left -= piece
    return path


def export_size(case):
    return int(run("nbdinfo", "--size", case.uri))


def same_bytes(one, other, count, what):
    """Compares the first `count` bytes of two files."""
    with open(one, "rb") as left, open(other, "rb") as right:
        at = 0
        while at < count:
            piece = min(MIB, count - at)
            expect(left.read(piece) == right.read(piece), f"{what}: bytes differ near {at}")
            at += piece


@test("nbdinfo-size")
def size(case):
    with wire.connect(case.server.socket, case.server.export) as connection:
        equal(export_size(case), connection.size, "size of nbdinfo and of the handshake")
    wanted = case.server.options.size
    found = export_size(case)
    # destage's is made of whole disks, a little larger than asked.
    expect(wanted <= found <= wanted + 16 * MIB, f"size {found}, asked for {wanted}")


@test("nbdinfo-flags")
def flags(case):
    said = run("nbdinfo", case.uri)
    words = {"flush": "flush", "FUA": "fua", "trim": "trim", "zero": "zero", "DF": "df",
             "multi-conn": "multi_conn", "cache": "cache", "fast zero": "fast_zero"}
    case.features({feature: re.search(rf"\bcan_{word}: true", said)
                   for feature, word in words.items()})
    expect(re.search(r"is_read_only: false", said), "the export is read-only")


@test("nbdinfo-json")
def as_json(case):
    entry = json.loads(run("nbdinfo", "--json", case.uri))["exports"][0]
    equal(entry["export-size"], export_size(case), "size in JSON")
    case.features({"block sizes": "block_size_minimum" in entry,
                   "base:allocation": "base:allocation" in entry.get("contexts", [])})
    if "block_size_minimum" not in entry:
        return
    low, best, high = (entry[f"block_size_{word}"] for word in ("minimum", "preferred", "maximum"))
    expect(low <= best <= high, f"block sizes {low}, {best}, {high}")


@test("nbdinfo-map")
def allocation_map(case):
    contexts = json.loads(run("nbdinfo", "--json", case.uri))["exports"][0].get("contexts", [])
    case.claim("base:allocation" in contexts, "base:allocation")
    said = json.loads(run("nbdinfo", "--map", "--json", case.uri))
    at = 0
    for extent in said:
        equal(extent["offset"], at, "offset of an extent")
        expect(extent["length"] > 0, f"empty extent at {at}")
        at += extent["length"]
    equal(at, export_size(case), "sum of the extents")
    run("nbdinfo", "--map", "--totals", case.uri)


@test("nbdinfo-list")
def listing(case):
    said = run("nbdinfo", "--list", "--json", case.uri)
    names = [entry["export-name"] for entry in json.loads(said)["exports"]]
    case.claim(names, "LIST")


@test("nbdinfo-unknown-export")
def unknown_export(case):
    other = case.uri.replace(f":///{case.server.export}?", ":///no-such-export?")
    if case.server.name.startswith("nbdkit"):
        # nbdkit's plugins serve any name.
        run("nbdinfo", "--size", other)
        return
    run("nbdinfo", "--size", other, codes=(1,))
    export_size(case)


def copy_there_and_back(case, *options, uri=None):
    uri = uri or case.uri
    total = export_size(case)
    there = random_file(case, "there", min(total, 96 * MIB))
    back = case.folder / "back"
    run("nbdcopy", *options, there, uri, timeout=90)
    run("nbdcopy", *options, uri, back, timeout=90)
    equal(back.stat().st_size, total, "size of the copy")
    same_bytes(there, back, there.stat().st_size, "nbdcopy")


@test("nbdcopy-both-ways", 120)
def copy_plain(case):
    copy_there_and_back(case)


def tcp_uri(case):
    uri = getattr(case.server, "tcp_uri", None)
    if uri is None:
        raise Skip(f"{case.server.name}'s adapter has no TCP")
    return uri


def over_tcp(case):
    """nbdinfo and nbdcopy over TCP, with the connections that nbdcopy chooses for itself."""
    uri = tcp_uri(case)
    equal(int(run("nbdinfo", "--size", uri)), export_size(case), "size over TCP")
    copy_there_and_back(case, uri=uri)


@test("nbdcopy-tcp", 120, tcp=True)
def copy_tcp(case):
    over_tcp(case)


@test("nbdcopy-connections-requests", 120)
def copy_parallel(case):
    copy_there_and_back(case, "--connections=4", "--requests=64", "--threads=4",
                        "--request-size=65536")


@test("nbdcopy-synchronous", 120)
def copy_synchronous(case):
    copy_there_and_back(case, "--synchronous", "--flush")


@test("nbdcopy-sparse", 120)
def copy_sparse(case):
    """Zeros are sent as zeroes over data, and must read so."""
    total = export_size(case)
    with wire.connect(case.server.socket, case.server.export) as connection:
        for at in range(0, 8 * MIB, 256 * KIB):
            connection.write(at, b"\xa5" * (256 * KIB))
    zeros = case.folder / "zeros"
    with open(zeros, "wb") as file:
        file.truncate(total)
    run("nbdcopy", "--flush", zeros, case.uri, timeout=90)
    run("nbdcopy", "--no-extents", case.uri, case.folder / "back", timeout=90)
    same_bytes(zeros, case.folder / "back", 16 * MIB, "zeros")


@test("nbddump")
def dump(case):
    need("nbddump")
    with wire.connect(case.server.socket, case.server.export) as connection:
        connection.write(512, b"destage conformance")
    said = run("nbddump", "-n", "1024", case.uri)
    expect("64 65 73 74 61 67 65" in said, f"nbddump shows no trace of what was written: {said}")
