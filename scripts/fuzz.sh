#!/usr/bin/env bash
# Runs the targets of crates/fuzz under libFuzzer, one after the other, FUZZ_SECONDS each (60). What it learns stays in
# target/fuzz/corpus, so a later run continues from there. Ends with 1 if an input fails, and says which.
# Usage: scripts/fuzz.sh [TARGET...], or scripts/fuzz.sh --build: only build them.
set -uo pipefail
cargo=${CARGO:-cargo}
seconds=${FUZZ_SECONDS:-60}
out=target/fuzz
fuzz=target/cargo-fuzz/bin/cargo-fuzz
TIMEFORMAT=%U
skip() { echo "SKIPPED: fuzzing: $1"; exit 0; }

rustup run nightly rustc --version >/dev/null 2>&1 ||
  skip "there is no nightly compiler: rustup toolchain install nightly"
[ -x $fuzz ] || "$cargo" install cargo-fuzz --version =0.13.2 --locked --debug --root target/cargo-fuzz ||
  skip "cargo-fuzz could not be installed"
# With the features of the workspace, as `make test` builds it.
"$cargo" build --quiet --locked --workspace --example seeds || exit 1
all=$(target/debug/examples/seeds $out/corpus) || exit 1
RUSTUP_TOOLCHAIN=nightly $fuzz build --fuzz-dir fuzz --sanitizer none --target-dir $out/build || exit 1
host=$(rustup run nightly rustc -vV | sed -n 's/^host: //p')
mkdir -p $out/found
[ "${1:-}" != --build ] || exit 0

failed=0
for target in ${*:-$all}; do
  seed=${FUZZ_SEED:-$(($(date +%s%N) % 4294967295 + 1))}
  echo "== $target: $seconds s, FUZZ_SEED=$seed"
  {
    time $out/build/"$host"/release/"$target" $out/corpus/"$target" -seed="$seed" -max_total_time="$seconds" \
      -max_len=16384 -len_control=10 -timeout=20 -rss_limit_mb=2048 -artifact_prefix=$out/found/"$target"- \
      -print_final_stats=1 > $out/"$target".log 2>&1
  } 2> $out/"$target".time
  status=$?
  grep -E '(INITED|pulse|DONE) ' $out/"$target".log | tail -n 3
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' $out/"$target".log)
  coverage=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' $out/"$target".log | tail -n 1)
  echo "$target: $(cat $out/"$target".time) s of processor time, ${executions:-?} executions," \
    "${coverage:-?} edges, $(ls $out/corpus/"$target" | wc -l) inputs kept"
  if [ $status != 0 ]; then
    failed=1
    grep -E 'panicked at|ERROR: libFuzzer|Test unit written' -A 1 $out/"$target".log | head -n 8
    echo "$target FAILED: add the input to crates/fuzz/tests/found/$target"
  fi
done
exit $failed
