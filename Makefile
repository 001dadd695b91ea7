# What is done with this repository. `make check` is what continuous integration runs, and nothing else.

.PHONY: help setup build dist sizes demo check format lint test suite docs bench fuzz soak clean

help:            ## this list
	@grep -E '^[a-z]+: .*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

setup:           ## install the Debian packages that tests and benchmarks need
	scripts/setup

build:           ## the optimised binary
	cargo build --release --locked

dist:            ## the binary that is packaged and measured: it takes longer to build, and less to serve a request
	cargo build --profile dist --locked

sizes:           ## how large the binary is as packages have it, the gateway alone and with every command
	scripts/sizes

demo: build      ## three replicas behind a gateway, on this machine
	target/release/weir demo

check: setup format lint test suite docs ## everything that must hold

format:          ## formatting
	cargo fmt --all --check

lint:            ## clippy, no warning allowed
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo clippy -p weir --no-default-features --all-targets --locked -- -D warnings

test:            ## all tests, with real peers
	cargo test --workspace --locked

suite:           ## the public test suite for HTTP caches, against what is expected of it
	cargo build --locked
	scripts/cache-tests --weir "$${CARGO_TARGET_DIR:-target}/debug/weir"

docs:            ## the API documentation builds without warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --locked --document-private-items

bench: setup dist ## what a request costs beside nginx and HAProxy, and to generate one; writes the README's table
	bench/proxy.py --weir target/dist/weir --readme README.md
	bench/load.py --weir target/dist/weir

fuzz:            ## ten minutes of fuzzing for each target; needs cargo-fuzz and a nightly toolchain
	for target in request_head response_head chunked_body cache_control vary range log kv_frame kv_map; do \
	  cargo +nightly fuzz run $$target -- -max_total_time=600 || exit 1; done

soak: build      ## thousands of seeds of the simulations, then the binary under faults for 30 minutes
	WEIR_SEEDS=10000 cargo test --release -p weir-gateway --lib --locked simulation
	WEIR_CLIENTS=3000 cargo test --release -p weir-policy --test it --locked impatient:: -- --nocapture
	WEIR_POINTS=3000 cargo test --release -p weir-policy --test it --locked space:: -- --nocapture
	WEIR_EJECTIONS=5000 cargo test --release -p weir-policy --test it --locked standing_out -- --nocapture
	WEIR_SEEDS=20000 cargo test --release -p weir-log --test it --locked images::
	WEIR_SEEDS=10000 cargo test --release -p weir-kv --lib --locked simulation
	scripts/soak --weir "$${CARGO_TARGET_DIR:-target}/release/weir" --minutes 30

clean:           ## what was built
	cargo clean
