#!/bin/sh
# Makes programs.wasm of programs.c, by clang 14 or a later one with the target wasm32.
set -eu
cd "$(dirname "$0")"
clang --target=wasm32 -O2 -fno-unroll-loops -fno-vectorize -mbulk-memory -nostdlib -Wl,--no-entry -Wl,--strip-all \
	-o programs.wasm programs.c
