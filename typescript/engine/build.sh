#!/bin/sh
# Builds engine.wasm.gz from the source of QuickJS, or with --check compares what it builds with the engine in this folder. With
# --tools it looks only whether the tools are there that --check needs, and fails if not.
#
# It needs Debian's apt-get with the archive's keyring, clang, lld, wasi-libc, libclang-rt-*-dev-wasm32, patch and xz-utils. The
# same clang and wasi-libc give the same bytes; the versions in the file TOOLS are those of the engine in this folder.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
check=${1:-}
suite=trixie # of Debian, which has this version
version=2025.04.26
sum=ec81da5b3249ed648dbc7df4a1654988910e66a118d9b71cb63534216efcfbbe
stack=2097152

# lacks says what is not there, and ends.
lacks() {
	echo "SKIPPED: $1"
	[ "$check" = --tools ] && exit 1
	exit 0
}
for tool in apt-get clang wasm-ld patch xz gzip; do
	command -v $tool >/dev/null || lacks "$tool is not installed, so the JavaScript engine was not built"
done
[ -d /usr/include/wasm32-wasi ] || lacks "wasi-libc is not installed, so the JavaScript engine was not built"
tools=$(clang --version | head -n 1; dpkg-query -W -f 'wasi-libc ${Version}\n' wasi-libc)
if [ -n "$check" ] && ! printf '%s\n' "$tools" | cmp -s - "$here/TOOLS"; then
	lacks "the engine was built by other tools than these, so its bytes were not compared:
$tools"
fi
[ "$check" != --tools ] || exit 0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
# The source package, from the archive that this machine's apt uses, without touching its own lists.
archive=$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' | head -n 1)
mkdir -p lists/partial cache/archives/partial
echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive $suite main" >sources.list
apt() {
	apt-get -qq -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$work/lists" \
		-o Dir::Cache="$work/cache" -o APT::Sandbox::User= "$@"
}
if ! { apt update && apt source --download-only quickjs=$version-1; }; then
	[ "$check" = --check ] || exit 1
	echo "SKIPPED: the source of QuickJS cannot be had here, so the engine's bytes were not compared"
	exit 0
fi
echo "$sum  quickjs_$version.orig.tar.xz" | sha256sum -c --quiet
tar -xf quickjs_$version.orig.tar.xz
cd quickjs-$version
for p in quickjs language; do patch -s -p1 <"$here/c/$p.patch"; done

flags="--target=wasm32-wasi -Oz -mbulk-memory -DNDEBUG -D_GNU_SOURCE -DCONFIG_VERSION=\"$version\" -I. -I$here/c -I$here/../../guest-sdk/c"
for f in quickjs dtoa libregexp libunicode cutils; do
	clang $flags -Wno-everything -c $f.c -o $f.o
done
clang $flags -Wall -Werror -c "$here/c/shim.c" -o shim.o
clang --target=wasm32-wasi -mexec-model=reactor -Wl,--stack-first -Wl,-z,stack-size=$stack -Wl,--strip-all -o engine.wasm \
	shim.o quickjs.o dtoa.o libregexp.o libunicode.o cutils.o -lm

if [ "$check" = --check ]; then
	gzip -d -c "$here/engine.wasm.gz" | cmp - engine.wasm
	echo "the engine is what its source makes: $(sha256sum <engine.wasm | cut -c 1-64)"
	exit 0
fi
gzip -9 -n -c engine.wasm >"$here/engine.wasm.gz"
sha256sum engine.wasm >"$here/SUMS"
printf '%s\n' "$tools" >"$here/TOOLS"
cp LICENSE "$here/LICENSE"
cat "$here/SUMS"
