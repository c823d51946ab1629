#!/usr/bin/python3
"""Real kills by the thousand: crashloop.py for each kind of array, added up.

The kinds: data in files and on tmpfs, one NVS device and two, all members there and one gone,
--ack nvs and flush. Each kind's result is kept for this build, so a run that is interrupted
continues. Exit 1 on any loss.
"""

import argparse
import hashlib
import itertools
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import crashloop
from harness import Failure, Skip, end_on_sigterm, say

COUNTED = ["kills", "acknowledged", "lost_writes", "torn"]


def kinds(files, tmpfs):
    """The words for crashloop.py, by name."""
    folders = [("files", files), ("tmpfs", tmpfs)]
    members = [("complete", []), ("degraded", ["--degraded"])]
    for (place, folder), copies, (state, words), ack in itertools.product(
            folders, [1, 2], members, ["nvs", "flush"]):
        yield f"{place}, {copies} NVS, {state}, --ack {ack}", [
            "--dir", str(folder), "--nvs-devices", str(copies), *words, "--ack", ack]


def run(words, kills, destage):
    """Kills one kind this many times."""
    options = crashloop.arguments(
        [*words, "--quick", "--rounds", str(kills), "--destage", str(destage)])
    loop = crashloop.crash(options)
    result = {name: getattr(loop, name) for name in COUNTED}
    return result | {"seed": options.seed, "failed": loop.failed()}


def program_of(destage):
    """Distinguishes builds: results of one are not those of another."""
    return hashlib.sha256(destage.read_bytes()).hexdigest()[:16]


def positive(word):
    number = int(word)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--destage", type=Path, default=Path("target/release/destage"),
                        metavar="PATH")
    parser.add_argument("--kills", type=positive, default=10_000, help="in all")
    parser.add_argument("--out", type=Path, default=Path("target/kills"), help="folder of results")
    parser.add_argument("--files", type=Path, default=Path("target"), help="folder on a disk")
    parser.add_argument("--tmpfs", type=Path, default=Path("/dev/shm"))
    parser.add_argument("--jobs", type=positive, default=os.cpu_count())
    given = parser.parse_args()
    end_on_sigterm()
    given.out.mkdir(parents=True, exist_ok=True)
    all_kinds = list(kinds(given.files.resolve(), given.tmpfs))
    kills = -(-given.kills // len(all_kinds))
    try:
        program = program_of(given.destage)
    except OSError as error:
        print(f"kills: {error}. Build it first, or give --destage PATH.", file=sys.stderr)
        return 1

    def once(number):
        name, words = all_kinds[number]
        kept = given.out / f"{program}-{number}-{kills}.json"
        if not kept.exists():
            result = run(words, kills, given.destage)
            if result["failed"]:
                raise Failure(f"{name}, seed {result['seed']}: {result}")
            kept.write_text(json.dumps(result))
        return name, json.loads(kept.read_text())

    with ThreadPoolExecutor(given.jobs) as pool:
        futures = [pool.submit(once, number) for number in range(len(all_kinds))]
        results = []
        for future in futures:
            try:
                results.append(future.result())
            except (Failure, Skip) as error:
                pool.shutdown(cancel_futures=True)
                print(f"kills: {error}", file=sys.stderr)
                return 1
            say(f"{len(results)} of {len(futures)} kinds")
    print("| array | kills | acknowledged writes checked | lost | found in part |")
    print("|---|---|---|---|---|")
    for name, result in results:
        print(f"| {name} | " + " | ".join(f"{result[key]:,}" for key in COUNTED) + " |")
    total = {key: sum(result[key] for _, result in results) for key in COUNTED}
    print("| all | " + " | ".join(f"{total[key]:,}" for key in COUNTED) + " |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
