# `make help` lists the targets. On a fresh machine `make demo` and `make test` do everything.

CARGO ?= cargo
DESTAGE = target/release/destage

.PHONY: help demo build test check docs house house-times bench reproduce reproduce-bands adaptive-weights torture torture-fresh torture-parts advise-check planted exhaustive \
  filesystems filesystems-faults filesystem-tools fuzz fuzz-build fuzz-tools mutants mutants-fresh mutants-tools released clean tools conformance crashloop kills speed-nbd speed-nvs speed-emulated agreement compare-peers compare-peers-quick speed-rebuild \
  nbd-tools wheel python python-tools python-test python-speed measure-disks measure-served \
  browser-tools browser-test screenshots deb deb-tools deb-test deb-test-tools site site-tools

## List the targets.
help:
	@awk '/^## / { if (!more) text = ""; more = 1; text = text " " substr($$0, 4); next } { more = 0 } \
	  /^[a-z-]+:/ && !/-tools:/ && text { sub(":.*", ""); printf "%-20s%s\n", $$0, text; text = "" }' Makefile

# What a build needs besides Rust (rustup.rs): a C compiler, for zstd and xz.
tools:
	@command -v cc >/dev/null || (apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev)
	@command -v $(CARGO) >/dev/null || (echo "Rust 1.88 or later is needed: install it by rustup" && exit 1)

## Build the program, target/release/destage.
build: tools
	$(CARGO) build --release --locked -p destage

## Show the main parts: four policies on two loads, then a served array.
demo: build
	@mkdir -p demo
	@echo "== Four policies, SPC-1-like load, RAID-5 4+1, 32,768 pages of NVS, thresholds 90/80 =="
	$(DESTAGE) compare --policies lrw,cscan,wow,stow --nvs 32768 --rate linear:90/80 \
	  --sweep iops=500..1200..50 --title "Four destage policies on SPC-1-like load" \
	  --out demo/report.html --out demo/report.txt --out demo/report.csv --format csv >/dev/null
	@sed -n '/^Throughput at/,/^Options/p' demo/report.txt | sed '/^Options/d'
	@sed -n '/^Findings/,$$p' demo/report.txt
	@echo
	@echo "== The same policies on a trace: 200,000 requests, hot/cold with sequential streams =="
	$(DESTAGE) trace generate demo/trace.dtrc.zst --force --requests 200000 --seed 7 \
	  --workload 'mix:0.7*hotcold+0.3*sequential,iops=600'
	$(DESTAGE) compare --policies lrw,cscan,wow,stow --nvs 8192 --trace demo/trace.dtrc.zst \
	  --title "Four destage policies on a generated trace" --out demo/trace.html --out demo/trace.txt \
	  --format csv >/dev/null
	@sed '/^Options/,/^Findings/{/^Findings/!d}' demo/trace.txt
	@echo
	@scripts/demo-array.sh $(DESTAGE) demo
	@echo
	@echo "Open demo/report.html and demo/trace.html in a browser; every figure is in demo/report.csv."

## Run every fast Rust test; under 10 minutes from a warm build.
test: tools
	$(CARGO) test --workspace --locked

## Check format, lints, documentation, plain English, and what the documents claim.
check: tools
	$(CARGO) fmt --all --check
	rustfmt --check --edition 2024 crates/server/src/front/*.rs
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked
	$(CARGO) test --workspace --locked --test docs --test claims --test words --test house

## Write the generated pages of docs.
docs: build
	$(DESTAGE) policies --format markdown > docs/policies.md
	$(DESTAGE) disks keys --format markdown > docs/disk-keys.md

## Print figures of the tree: import circles, largest objects and files, packages of the smallest
## server. HOUSE_TREE=PATH prints those of another tree.
house: tools
	$(CARGO) test --locked -p destage --test house -- --ignored --nocapture

## Print build times from nothing, of the workspace and of the engine's tests. Needs an idle machine.
house-times: tools
	scripts/house-times.sh $(CARGO)

## Build the documents as a searchable site, target/site/book, and check its links. mdBook is built
## once, without its web server, and stays in target/mdbook.
MDBOOK = target/mdbook/bin/mdbook
MDBOOK_VERSION = 0.5.4
site-tools:
	@$(MDBOOK) --version 2>/dev/null | grep -q 'v$(MDBOOK_VERSION)$$' || \
	  $(CARGO) install mdbook --version =$(MDBOOK_VERSION) --locked --debug --no-default-features \
	    --features search --root target/mdbook

site: site-tools
	scripts/site.sh $(MDBOOK)

## Run every figure and table of the papers again, into reproduction/index.html; under 90 minutes.
reproduce: build
	$(DESTAGE) reproduce --all --out reproduction

## Measure thirteen modelled drives with ten seeds each, and print how near the specs are.
measure-disks: tools
	$(CARGO) test --locked -p destage-disk --test measure -- --ignored --nocapture

## Measure a served model in real time over NBD, for about five minutes. Needs an idle machine.
measure-served: tools
	$(CARGO) test --locked -p destage --test measure -- --ignored --nocapture

## Run every item again and compare each verdict with docs/reproduction.md; more than an hour.
reproduce-bands: tools
	$(CARGO) test --locked -p destage --test reproduce --test results -- --ignored --nocapture

## Compare adaptive read-cache weights with fixed ones, in replays of traces and on two halves of
## loads; TRACES is the folder.
TRACES ?= ../shared/traces
adaptive-weights: build
	/usr/bin/python3 scripts/adaptive_replays.py $(DESTAGE) $(TRACES)
	$(CARGO) run --locked -p destage-sim --example adaptive -- $(TRACES)

## Crash the served array 20,000 times on simulated devices, and check every byte.
torture: build
	$(DESTAGE) torture --crashes 20000

torture-parts-test:
	@PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -m unittest discover -s tests/torture

## Crash it a million times in parts, into target/torture; continues what was interrupted. ARGS: e.g.
## --crashes 100000 --sum --format json.
torture-parts: build torture-parts-test
	/usr/bin/python3 scripts/torture_parts.py --destage $(DESTAGE) $(ARGS)

## Ask `destage advise` about twelve generated loads and the traces at hand, and check each answer by
## runs ten times as long (docs/advise.md). It continues where it was interrupted. ARGS: e.g.
## --minutes 30.
advise-check: build
	/usr/bin/python3 scripts/advise_check.py --destage $(DESTAGE) $(ARGS)

## Plant faults into a copy of the code, one at a time, and let random torture look for each within
## 5,000 crashes (docs/proof.md). ARGS: names of faults.
planted: tools
	/usr/bin/python3 tests/planted/run.py --cargo $(CARGO) $(ARGS)

## Do the same as make torture for two minutes with fresh seeds, for CI. A failure prints the line that repeats it.
torture-fresh: build torture-parts-test
	ulimit -v 8388608; $(DESTAGE) torture --hours 0.0333 --seed clock

## Fuzz everything that comes from outside, each target for FUZZ_SECONDS (60), with libFuzzer and a
## nightly compiler. TARGETS="nvs http": only these.
fuzz: tools
	CARGO=$(CARGO) scripts/fuzz.sh $(TARGETS)

fuzz-build: tools
	CARGO=$(CARGO) scripts/fuzz.sh --build

# A nightly compiler, for that alone.
fuzz-tools:
	@rustup run nightly rustc --version 2>/dev/null || rustup toolchain install nightly --profile minimal || true

# Lists mutants; built once, it stays in target/cargo-mutants.
CARGO_MUTANTS = target/cargo-mutants/bin/cargo-mutants
CARGO_MUTANTS_VERSION = 27.1.0
mutants-tools: tools
	@$(CARGO_MUTANTS) mutants --version 2>/dev/null | grep -q ' $(CARGO_MUTANTS_VERSION)$$' || \
	  $(CARGO) install cargo-mutants --version =$(CARGO_MUTANTS_VERSION) --locked --debug \
	    --root target/cargo-mutants || true
	@PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -m unittest discover -s tests/mutants

## Judge 400 mutants of the crash-critical code by the tests that should catch them. It continues
## where it was interrupted. ARGS: e.g. --shard 1/4, --summary, --seed 2.
MUTANTS = PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 scripts/mutants.py --cargo $(CARGO) \
  --cargo-mutants $(CARGO_MUTANTS)
mutants: mutants-tools
	$(MUTANTS) $(ARGS)

## Build and judge mutants of a fresh draw for SECONDS (300) once they are built, for CI.
SECONDS ?= 300
mutants-fresh: mutants-tools
	$(MUTANTS) --fresh --seed clock --seconds $(SECONDS) --least 85 $(ARGS)

## Show that the release program has no deliberate faults.
released: build
	DESTAGE_RELEASED=$$PWD/$(DESTAGE) $(CARGO) test --workspace --locked --test packages

## Measure speeds: replays, simulator, parity. ARGS=10: million requests.
bench: tools
	$(CARGO) bench --locked -p destage --bench speed -- $(ARGS)
	$(CARGO) bench --locked -p destage-engine --bench second_stack

## Explore every crash of short scripts on a small array (docs/proof.md); under 20 minutes on two
## processors. ARGS: e.g. --script parts.
exhaustive: tools
	$(CARGO) run --release --locked -p destage-torture --example exhaustive -- $(ARGS)

# File systems and what mounts and loads them, by their Debian names.
FILESYSTEM_PACKAGES = libnbd-bin fio e2fsprogs xfsprogs btrfs-progs
filesystem-tools:
	@dpkg -s $(FILESYSTEM_PACKAGES) >/dev/null 2>&1 || [ "$$(id -u)" != 0 ] || \
	  (apt-get update && apt-get install -y --no-install-recommends $(FILESYSTEM_PACKAGES)) || true

# How many cuts of all file systems together, and which file systems.
CUTS ?= 2000
FS ?= ext4 xfs btrfs
FILESYSTEMS = PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 tests/filesystems

## Cut the power CUTS times (2000) under real file systems, at places of a recording of every device
## write, and check each by its own tool and by content (docs/proof.md). FS="ext4 xfs btrfs"; ARGS.
filesystems: build filesystem-tools
	$(FILESYSTEMS)/check_stream.py
	$(FILESYSTEMS)/run.py --destage $(DESTAGE) --cuts $(CUTS) --fs "$(FS)" $(ARGS)

## Show that `make filesystems` finds deliberate faults: arrays that are recorded with one.
filesystems-faults: build filesystem-tools
	$(CARGO) build --release --locked -p destage-server --example faulty
	$(FILESYSTEMS)/run.py --destage $(DESTAGE) --faulty target/release/examples/faulty --fs "$(FS)" $(ARGS)

## Kill the server KILLS times (10,000) in all on arrays of 16 kinds: files and tmpfs, one NVS device and two, whole
## and degraded, both kinds of --ack. It continues where it was interrupted.
KILLS ?= 10000
kills: build
	PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 tests/conformance/kills.py --destage $(DESTAGE) --kills $(KILLS) $(ARGS)

# Public NBD clients and NBD servers to compare with, by their Debian names.
NBD_PACKAGES = nbdkit nbd-server libnbd-bin python3-libnbd qemu-utils fio e2fsprogs gnutls-bin
nbd-tools:
	@dpkg -s $(NBD_PACKAGES) >/dev/null 2>&1 || [ "$$(id -u)" != 0 ] || \
	  (apt-get update && apt-get install -y --no-install-recommends $(NBD_PACKAGES))

# Which server: destage, nbdkit, nbdkit-memory, nbd-server or qemu-nbd (tests/conformance/README.md).
SERVER ?= destage
ROUNDS ?= 200
CONFORMANCE = PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 tests/conformance
SERVED = $(if $(filter destage,$(SERVER)),build)

## Run public and hostile NBD clients against the server (SERVER=), after a short round of compare-peers.
conformance: nbd-tools $(SERVED)
	$(if $(SERVED),$(CONFORMANCE)/compare_peers.py --destage $(DESTAGE) --quick)
	$(CONFORMANCE)/run.py --server $(SERVER) --destage $(DESTAGE)

## Kill the server with kill -9, restart it and compare, ROUNDS times. First show that the check can
## fail, with a server that keeps nothing.
crashloop: nbd-tools $(SERVED)
	$(CONFORMANCE)/check_crashmodel.py
	$(CONFORMANCE)/crashloop.py --server nbdkit-memory --rounds 2 --must-lose
	$(CONFORMANCE)/crashloop.py --server $(SERVER) --destage $(DESTAGE) --rounds $(ROUNDS)
	$(CONFORMANCE)/crashloop.py --server $(SERVER) --destage $(DESTAGE) --rounds $(ROUNDS) --ack flush

## Measure the NBD server next to others. DISK=DIR adds the log on that disk.
speed-nbd: nbd-tools build
	$(CONFORMANCE)/speed.py --destage $(DESTAGE) --json target/speed-nbd.json \
	  $(if $(DISK),--disk-dir $(DISK)) $(ARGS)

## Measure an NVS device that is old, full, or written in small parts. DISK=/var/tmp: on that disk too.
speed-nvs: nbd-tools build
	$(CONFORMANCE)/nvs.py --destage $(DESTAGE) $(if $(DISK),--disk-dir $(DISK)) $(ARGS)

## Measure the gain of the cache on five emulated disks: ROUNDS of 150 s, POLICY.
speed-emulated: build
	$(CONFORMANCE)/emulated.py --destage $(DESTAGE) --rounds $(if $(filter 200,$(ROUNDS)),3,$(ROUNDS)) \
	  --policies $(or $(POLICY),stow) --loads uniform

## Hold the simulator to an array that is served on five emulated disks, ROUNDS of five loads
## (docs/simulator.md); 12 minutes. ARGS: e.g. --loads uniform,trace.
agreement: build
	$(CONFORMANCE)/agreement.py --destage $(DESTAGE) --rounds $(if $(filter 200,$(ROUNDS)),3,$(ROUNDS)) $(ARGS)

## Compare destage with its peers, front end and cache, as one page; under 20 minutes. OUT=FILE
compare-peers: nbd-tools build
	$(CONFORMANCE)/compare_peers.py --destage $(DESTAGE) --out $(or $(OUT),target/compare-peers.md)

## Run one short round of that, to see that it works.
compare-peers-quick: nbd-tools build
	$(CONFORMANCE)/compare_peers.py --destage $(DESTAGE) --quick

## Measure a rebuild next to what its members can stream. DISK=DIR: a folder on their disk.
speed-rebuild: nbd-tools build
	scripts/speed-rebuild.sh $(DESTAGE) $(or $(DISK),/var/tmp)

## Build the Python package, a wheel for CPython 3.10 and later in target/wheels, and install it with
## all extras into a fresh virtual environment, target/venv.
WHEEL = target/wheels/destage-*.whl
PYTHON_TOOLS = abi3audit pytest pytest-timeout mypy ruff pandas-stubs nbclient nbformat ipykernel
python: wheel
	scripts/python-venv.sh target/venv "$$(echo $(WHEEL))[all]" $(PYTHON_TOOLS)

wheel: tools python-tools
	rm -rf target/wheels
	PATH="$$PWD/target/venv-build/bin:$$PATH" maturin build --release --out target/wheels

python-tools:
	@[ -x target/venv-build/bin/maturin ] || scripts/python-venv.sh target/venv-build 'maturin>=1.9,<2'

## Test the wheel: stable ABI, pytest (notebooks too), mypy --strict, ruff.
python-test: python build
	target/venv/bin/abi3audit --strict --summary $(WHEEL)
	cd target && venv/bin/pytest ../python/tests --timeout 300 -p no:cacheprovider
	cd target && venv/bin/mypy --config-file ../python/mypy.ini -p destage
	cd target && venv/bin/mypy --config-file ../python/mypy.ini ../python/tests ../scripts/python_speed.py
	target/venv/bin/ruff check --config python/ruff.toml --no-cache python scripts
	target/venv/bin/ruff format --check --config python/ruff.toml --no-cache python scripts

## Measure the figures of docs/python.md: calls, traces, Python policies, a Dask cluster.
python-speed: python build
	target/venv/bin/python scripts/python_speed.py --destage $(DESTAGE)

## Test the pages in headless Chromium, with axe-core where npm is installed. PICTURES=DIR: pictures of
## the report pages at 1280 and 390 pixels, light and dark.
BROWSER_PACKAGES = chromium chromium-driver python3-selenium python3-pil prometheus
BROWSER = PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 tests/browser/run.py --destage $(DESTAGE)
browser-tools:
	@dpkg -s $(BROWSER_PACKAGES) >/dev/null 2>&1 || [ "$$(id -u)" != 0 ] || \
	  (apt-get update && apt-get install -y --no-install-recommends $(BROWSER_PACKAGES)) || true
	@[ -d target/axe/node_modules ] || ! command -v npm >/dev/null || \
	  npm install --prefix target/axe --no-audit --no-fund --no-save axe-core@4.14.1 || true

browser-test: build browser-tools
	@if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then \
	  $(BROWSER) $(if $(PICTURES),--pictures $(PICTURES)); \
	  else echo "SKIPPED: no Chromium to be had (Debian: chromium chromium-driver)"; fi

## Make the pictures of the page in docs/images, of an array on emulated disks under load.
screenshots: build browser-tools
	$(BROWSER) --screenshots docs/images

## Build the Debian package, target/debian/destage_VERSION_ARCH.deb (docs/operations.md).
deb-tools:
	@dpkg -s dpkg-dev binutils >/dev/null 2>&1 || \
	  (apt-get update && apt-get install -y --no-install-recommends dpkg-dev binutils)

deb: build deb-tools
	packaging/build-deb.sh $(DESTAGE) target/debian

## Test the Debian package: lintian; then install, serve, replace a disk, upgrade and remove it, on a
## copy of this machine under a systemd of its own.
DEB_TEST_PACKAGES = lintian systemd-container libnbd-bin e2fsprogs qemu-utils
deb-test-tools:
	@dpkg -s $(DEB_TEST_PACKAGES) >/dev/null 2>&1 || [ "$$(id -u)" != 0 ] || \
	  (apt-get update && apt-get install -y --no-install-recommends $(DEB_TEST_PACKAGES)) || true

deb-test: deb deb-test-tools
	@if command -v lintian >/dev/null; then \
	  lintian --fail-on error,warning --tag-display-limit 0 target/debian/destage_*.deb; \
	  else echo "SKIPPED: lintian is not installed"; fi
	PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 tests/package/run.py --deb target/debian/destage_*.deb

## Remove everything that was built.
clean:
	$(CARGO) clean
	rm -rf demo reproduction
