#!/bin/sh
# Fetches modules of packages from the npm registry into a folder, for `make differential MODULES=FOLDER`. Nothing of the packages is
# installed or executed by npm, and a package with another checksum than below is refused.
set -eu
[ $# = 1 ] || { echo "usage: $0 FOLDER" >&2; exit 2; }
command -v npm >/dev/null || { echo "npm is not installed" >&2; exit 1; }
mkdir -p "$1"
to=$(cd "$1" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
while read -r sum package; do
  file=$(npm pack --silent --ignore-scripts "$package")
  echo "$sum  $file" | sha256sum --check --quiet
  mkdir x && tar xzf "$file" -C x
  find x -name '*.wasm' | sort | while read -r module; do
    cp "$module" "$to/$(echo "${file%.tgz}${module#x/package}" | tr / _)"
  done
  rm -rf x
done <<LIST
cdb11795a4971bde095fe6b836aa424de50c4558ed4b9505bc74111eee7f6d35 argon2-browser@1.18.0
680a6ae81375a786c30671cf3824ff8c1d04657b5e540b4f92178897f2210344 @bokuweb/zstd-wasm@0.0.27
413c3589dae9b5a9971c24c8649cdf1e5c8cedb110067a381786930ed614f174 brotli-wasm@3.0.1
bd2a9b1ea9f39d1ddaaf088f14e97a62cfb53b1b3868e5a2a65567ccdacb0e2e @jsquash/png@3.1.1
b543cb1fc17e99c31e992a71d70da570d1bc1871ce3a88440df067e5b2e6ee9e @jsquash/webp@1.5.0
e651cb278c5f14113637e2da0d6e5531d71a90d51410464334cbfb889fa71434 onigasm@2.2.5
ff51acbb5ee0074601b75c3bea9226a18d346752af787f6d2d3adcdd98493d71 @resvg/resvg-wasm@2.6.2
65dea7e28963ef0ade5a47a6921d34782f9fb35863045ef8604ec90673947d3d source-map@0.7.4
bb6f5c7e4ac6de569e4f3eee38122b56d777c387ec74fbb1a7075adf37097df6 sql.js@1.16.0
3b42911fd9609f2cc3b9c6dd52236b3da73780e633aa7dc381267006b7e7da21 vscode-oniguruma@2.0.1
7346db659eb870a5284242851ab7aedea41d7397b8c7e95ff8d9ec5b5a80270f web-tree-sitter@0.27.1
43e9926408e55116e267f2e85d19f8df3e492e8616cfe0e206843ffc14612d67 yoga-wasm-web@0.3.3
LIST
