#!/usr/bin/env bash
# Records the captures beside this script again: testdata/captures/make.sh (needs qemu-user and the QEMU plugin for
# those of Arm). `first` is made by a test of its own: BLESS=1 cargo test -p backsight-unit --test first_capture.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo build --quiet -p backsight-cli
backsight=$(cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/debug/backsight

record() { # name, options and program
    local capture=testdata/captures/$1
    shift
    rm -rf "$capture"
    "$backsight" record --truth --limit 40000 --output "$capture" "$@" >/dev/null
}

record calls-riscv64 --config implicit_return=1 -- testdata/programs/riscv64/calls
record calls-aarch64 --config return_stack=1 --config timestamps=2000 -- testdata/programs/aarch64/calls
record interwork-arm --config return_stack=1 -- testdata/programs/arm/interwork

# What the lab traces again and again: executed instructions without a trace.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for program in calls pack sort vm; do
    "$backsight" record --truth --limit 200000 --output "$scratch/$program" -- "testdata/programs/aarch64/$program" >/dev/null
    cp "$scratch/$program/truth.retired" "testdata/retired/$program.retired"
done
