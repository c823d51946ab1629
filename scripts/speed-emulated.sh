#!/usr/bin/env bash
# Five emulated 10,000 rpm disks as RAID-5: uniform 4 KiB writes at depth 32, far past a full NVS,
# beside the same array without its cache. Prints the sustained rates, in turn, and their ratio.
# Usage: scripts/speed-emulated.sh path/to/destage [rounds] [policy]
set -euo pipefail
destage=$(realpath "$1")
rounds=${2:-3}
policy=${3:-stow}
folder=$(mktemp -d /dev/shm/destage-emulated.XXXXXX)
trap 'kill $(jobs -p) 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"

disks=()
for disk in 0 1 2 3 4; do
  "$destage" emulate stow-ref --size 300M --nbd "unix:$folder/d$disk.sock" 2>/dev/null &
  disks+=(--disk "nbd+unix:///stow-ref?socket=$folder/d$disk.sock")
done
sleep 1

# The array NAME, loaded for 30 s after $2 s: "IOPS p99_us".
sustained() {
  "$destage" serve "$1" --nbd "unix:$folder/$1.sock" --config-dir "$folder" 2>"$1.log" &
  local server=$!
  sleep 1
  local uri="nbd+unix:///?socket=$folder/$1.sock"
  load() { "$destage" bench "$uri" --rw randwrite --depth 32 --size 1G --time "$1" --format json; }
  load "$2" >/dev/null
  load 30s | python3 -c 'import json, sys
row = next(row for row in json.load(sys.stdin) if row["kind"] == "write")
print(round(row["rate_s"]), round(row["p99_us"]))'
  "$destage" stop "$1" --config-dir "$folder" >/dev/null
  wait "$server"
}

# An emulated disk has one owner at a time, and is all zeros only once: its first MiB is cleared.
create() {
  for disk in 0 1 2 3 4; do
    python3 - "$folder/d$disk.sock" <<'P'
import socket, struct, sys
peer = socket.socket(socket.AF_UNIX)
peer.connect(sys.argv[1])
def get(n):
    data = b""
    while len(data) < n:
        data += peer.recv(n - len(data))
    return data
get(18)
peer.sendall(struct.pack(">I", 3))
name = b"stow-ref"
peer.sendall(b"IHAVEOPT" + struct.pack(">II", 1, len(name)) + name)
get(10)
peer.sendall(struct.pack(">IHHQQI", 0x25609513, 0, 1, 1, 0, 1 << 20) + bytes(1 << 20))
get(16)
P
  done
  "$destage" create "$@" --level 5 "${disks[@]}" --assume-clean --policy "$policy" \
    --config-dir "$folder" >/dev/null
}

echo "policy $policy; NVS of 16,384 pages, one sixteenth of the 1 GiB written to"
for round in $(seq "$rounds"); do
  rm -f nvs ./*.toml
  create off
  read -r off_rate off_p99 < <(sustained off 10s)
  create on --nvs nvs,size=217M
  read -r on_rate on_p99 < <(sustained on 45s)
  echo "round $round: without cache $off_rate IOPS, p99 $((off_p99 / 1000)) ms;" \
    "with $on_rate IOPS, p99 $((on_p99 / 1000)) ms; ratio" \
    "$(python3 -c "print(f'{$on_rate / $off_rate:.2f}')")"
done
