#!/usr/bin/env bash
# A rebuild of RAID-5 over five files at full speed, next to what these files can stream: four read
# and one written at once, in order, by direct I/O in requests of the rebuild's size. In turn;
# prints each round's rates of the rebuilt member, and the ratio of the medians.
# Usage: scripts/speed-rebuild.sh path/to/destage [folder on the disk] [MiB a member] [rounds]
set -euo pipefail
destage=$(realpath "$1")
place=${2:-/var/tmp}
mib=${3:-1024}
rounds=${4:-3}
command -v fio >/dev/null || { echo "SKIPPED: fio is not installed"; exit 0; }
folder=$(mktemp -d "$place/destage-rebuild.XXXXXX")
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"

# Written once throughout, so that the file system's search for space is not measured.
for file in d0 d1 d2 d3 d4 s0; do
  dd if=/dev/zero of="$file" bs=1M count="$mib" oflag=direct status=none 2>/dev/null ||
    dd if=/dev/zero of="$file" bs=1M count="$mib" status=none
done
disks=()
for disk in 0 1 2 3 4; do disks+=(--disk "d$disk"); done
"$destage" create tank --level 5 "${disks[@]}" --nvs nvs,size=64M --assume-clean --config-dir . >/dev/null
"$destage" serve tank --nbd "unix:$folder/nbd.sock" --config-dir . 2>server.log &
server=$!
for _ in $(seq 100); do grep -q 'serving on' server.log && break; sleep 0.1; done
# Contents of some kind.
"$destage" bench "nbd+unix:///?socket=$folder/nbd.sock" --rw write --bs 256K --depth 8 --time 2s >/dev/null || true
"$destage" flush tank --config-dir . >/dev/null

now() { date +%s.%N; }
rate() { python3 -c "print(round($mib * 1.048576 / ($2 - $1), 1))"; }
direct=1
case "$(stat -f -c %T .)" in tmpfs) direct=0 ;; esac
old=d0
new=s0
streams=() rebuilds=()
for round in $(seq "$rounds"); do
  jobs=()
  for disk in d1 d2 d3 d4; do jobs+=(--name="$disk" --filename="$disk" --rw=read); done
  from=$(now)
  fio --direct="$direct" --bs=512k --iodepth=2 --ioengine=libaio --size="${mib}m" --minimal \
    --allow_file_create=0 "${jobs[@]}" --name=w --filename="$new" --rw=write --end_fsync=1 >/dev/null
  streams+=("$(rate "$from" "$(now)")")
  dd if=/dev/zero of="$new" bs=1M count=1 conv=notrunc,fsync status=none
  "$destage" fail tank 0 --config-dir . >/dev/null
  from=$(now)
  "$destage" replace tank 0 "$new" --config-dir . >/dev/null 2>&1
  rebuilds+=("$(rate "$from" "$(now)")")
  echo "round $round: files stream ${streams[-1]} MB/s, rebuild ${rebuilds[-1]} MB/s"
  swap=$old old=$new new=$swap
done
"$destage" scrub tank --limit 100G --config-dir . >/dev/null
"$destage" stop tank --config-dir . >/dev/null
wait "$server"
server=
python3 - "${streams[*]}" "${rebuilds[*]}" <<'P'
import statistics, sys
stream, rebuild = (statistics.median(map(float, words.split())) for words in sys.argv[1:])
print(f"medians: {stream} and {rebuild} MB/s of the member: ratio {rebuild / stream:.2f}")
P
