#!/usr/bin/env bash
# Fetches real Debian 12 programs for arm64 and armhf, with the libraries they need, into folders to run them from:
#   tests/ground-truth/fetch.sh [FOLDER]          (default: target/ground-truth)
# makes FOLDER/arm64 and FOLDER/armhf. Needs apt and dpkg-deb (any Debian or Ubuntu), no root: nothing is installed.
#   qemu-aarch64 -L FOLDER/arm64 FOLDER/arm64/usr/bin/cjpeg …
set -euo pipefail
cd "$(dirname "$0")/../.."
out=$(realpath -m "${1:-target/ground-truth}")
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
programs=(busybox-static libjpeg-turbo-progs lame madplay libgsm-tools libtiff-tools coreutils sox bzip2 gzip)

fetch() { # architecture
    local arch=$1
    local state=$out/apt-$arch root=$out/$arch
    mkdir -p "$state"/{lists/partial,cache/archives/partial,etc/preferences.d} "$root"
    local keyring=/usr/share/keyrings/debian-archive-keyring.gpg trust=""
    if [ -e $keyring ]; then trust="signed-by=$keyring"; fi
    echo "deb [arch=$arch $trust] $mirror bookworm main" >"$state/etc/sources.list"
    : >"$state/status"
    # A private view of the archive, so that the machine's own architectures and sources stay as they are.
    local apt=(-qq -o "Dir::State=$state" -o "Dir::State::status=$state/status" -o "Dir::Cache=$state/cache"
        -o "Dir::State::lists=$state/lists" -o "Dir::Etc=$state/etc" -o "Dir::Etc::sourceparts=-"
        -o "APT::Architecture=$arch" -o "APT::Architectures=$arch" -o "APT::Install-Recommends=false"
        -o "APT::Sandbox::User=")
    apt-get "${apt[@]}" update
    # Libraries by dependency; no essential packages beyond the C library.
    local wanted
    wanted=$(apt-cache "${apt[@]}" depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks \
        --no-replaces --no-enhances --no-pre-depends "${programs[@]}" |
        sed -n 's/^\([a-z0-9].*\)$/\1/p' | sed 's/:.*//' | sort -u |
        grep -E "^(lib|gcc-.*-base|zlib|$(IFS='|' && echo "${programs[*]}")\$)" |
        grep -vE '^(libperl|libpam|libsystemd|libdpkg|libapt|libcrypt-dev|libc-dev|libdebconf|libtext|liblocale)')
    # shellcheck disable=SC2086 # a list of names
    (cd "$state/cache" && apt-get "${apt[@]}" download $wanted)
    for package in "$state"/cache/*.deb; do dpkg-deb -x "$package" "$root"; done
    echo "$root: $(find "$root/usr/bin" "$root/bin" -type f 2>/dev/null | wc -l) programs"
}

fetch arm64
fetch armhf
