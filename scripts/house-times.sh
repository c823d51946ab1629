#!/usr/bin/env bash
# Build times from nothing, in seconds: the workspace, the engine's tests alone, and what a change in
# the engine costs. Third-party packages are built with the first and counted there.
# Usage: scripts/house-times.sh [cargo]
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${1:-cargo}
export CARGO_TARGET_DIR=target/house-times
log=target/house-times.log
rm -rf "$CARGO_TARGET_DIR"
mkdir -p target

# Runs a command and prints how long it took.
timed() {
  local what=$1 start end
  shift
  start=$(date +%s.%N)
  "$@" > "$log" 2>&1 || { cat "$log" >&2; exit 1; }
  end=$(date +%s.%N)
  printf '%-56s %7.1f s\n' "$what" "$(awk "BEGIN { print $end - $start }")"
}

"$cargo" fetch --locked > "$log" 2>&1
timed "the workspace with its tests, from nothing" "$cargo" test --workspace --locked --no-run
touch crates/engine/src/lib.rs
timed "the workspace with its tests, after a change in the engine" "$cargo" test --workspace --locked --no-run
rm -rf "$CARGO_TARGET_DIR"
timed "the engine's tests alone, from nothing" "$cargo" test -p destage-engine --locked --no-run
touch crates/engine/src/lib.rs
timed "the engine's tests alone, after a change in the engine" "$cargo" test -p destage-engine --locked --no-run
rm -rf "$CARGO_TARGET_DIR"
