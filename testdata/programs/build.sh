#!/usr/bin/env bash
# Rebuilds the example programs with Debian's cross compilers:
#   apt-get install gcc-riscv64-linux-gnu gcc-aarch64-linux-gnu gcc-arm-linux-gnueabihf
# testdata/programs/build.sh [FOLDER]: writes into FOLDER instead of beside this script.
set -euo pipefail
cd "$(dirname "$0")"
out=$(realpath "${1:-.}")
flags="-O2 -g -std=gnu11 -Wall -Wextra -ffreestanding -fno-stack-protector -fno-pic -fno-builtin
    -fno-asynchronous-unwind-tables -fno-tree-loop-distribute-patterns -nostdlib -static -no-pie -ffile-prefix-map=$PWD=.
    -Wl,--build-id=none -Wl,-z,max-page-size=4096"

build() { # folder, compiler with its flags, programs
    local folder=$1 compiler=$2
    shift 2
    mkdir -p "$out/$folder"
    for program in "$@"; do
        $compiler $flags "src/$program.c" src/runtime.c -o "$out/$folder/$program"
    done
}

build riscv64 "riscv64-linux-gnu-gcc -march=rv64gc -mabi=lp64d -Wl,-z,separate-code" sort vm pack calls loops threads signals jit
build riscv64 "riscv64-linux-gnu-gcc -march=rv64gc -mabi=lp64d -s -Wl,-z,separate-code" isa
build aarch64 "aarch64-linux-gnu-gcc -mno-outline-atomics -mgeneral-regs-only" sort vm pack calls loops threads
build arm "arm-linux-gnueabihf-gcc -marm -march=armv7-a -mfpu=vfpv3-d16 -mthumb-interwork" interwork sort
build arm "arm-linux-gnueabihf-gcc -mthumb -march=armv7-a -mfpu=vfpv3-d16" vm calls loops pack
