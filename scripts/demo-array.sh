#!/usr/bin/env bash
# A served array end to end, in files: create, serve, load, kill -9, recover, verify. Under a minute.
# Usage: scripts/demo-array.sh path/to/destage [folder]
set -euo pipefail
destage=$(realpath "$1")
folder=$(realpath -m "${2:-demo}")/array
rm -rf "$folder"
mkdir -p "$folder"
cd "$folder"
uri="nbd+unix:///?socket=$folder/tank.sock"
server=

serve() {
  "$destage" serve tank --nbd "unix:$folder/tank.sock" --config-dir "$folder" 2>>serve.log &
  server=$!
  disown "$server"
  for _ in $(seq 100); do
    "$destage" status tank --config-dir "$folder" >/dev/null 2>&1 && return
    sleep 0.1
  done
  echo "the server did not start:" >&2
  cat serve.log >&2
  exit 1
}
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true' EXIT

echo "== An array of four disks (files), level 5, with an NVS of 32 MiB =="
"$destage" create tank --level 5 --disk d0,size=96M --disk d1,size=96M --disk d2,size=96M \
  --disk d3,size=96M --nvs nvs,size=32M --config-dir "$folder" | head -n 1
serve
echo
echo "== 4 KiB random writes over NBD for 6 s; the server is killed (kill -9) after 3 =="
(sleep 3; kill -9 "$server") &
killer=$!
"$destage" bench "$uri" --rw randwrite --depth 16 --time 6s --log acked.log >bench.txt 2>&1 ||
  echo "the client: $(tail -n 1 bench.txt)"
wait "$killer"
echo
echo "== Started again: the log is recovered, interrupted destages are redone =="
serve
tail -n 2 serve.log | head -n 1
echo
echo "== Is every acknowledged write there? =="
"$destage" bench "$uri" --check acked.log
echo
echo "== Its state, then everything destaged and stopped =="
"$destage" status tank --config-dir "$folder" | sed -n '3,11p'
"$destage" flush tank --config-dir "$folder"
"$destage" stop tank --config-dir "$folder"
server=
