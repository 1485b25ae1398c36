#!/usr/bin/env bash
# Plants each fault of this folder into a copy of the repository and shows that the test of random programs finds it.
set -euo pipefail
root=$(cd "$(dirname "$0")/../../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
found=0 all=0
for patch in "$root"/host/testdata/faults/*.patch; do
  all=$((all + 1))
  cd "$root" && rm -rf "$work/copy"
  git clone -q "$root" "$work/copy"
  cd "$work/copy"
  git apply "$patch"
  if go test ./host -run TestRandomPrograms -count=1 -timeout 5m -rapid.checks=2000 -rapid.nofailfile -rapid.shrinktime=1s >"$work/log" 2>&1; then
    echo "NOT FOUND  $(basename "$patch")"
  elif grep -q "^panic:\|does not come to rest" "$work/log"; then # a fault is found by what it does wrong
    cat "$work/log"
    exit 1
  elif grep -q "uncut:\|did not complete\|TestRandomPrograms" "$work/log"; then
    echo "found      $(basename "$patch")"
    found=$((found + 1))
  else
    cat "$work/log"
    exit 1
  fi
done
echo "$found of $all planted faults were found"
[ "$found" = "$all" ]
