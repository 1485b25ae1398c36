#!/usr/bin/env bash
# Plants each fault of this folder into a copy of the repository and shows that the tests which its first line names find it.
set -euo pipefail
root=$(cd "$(dirname "$0")/../../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
found=0 all=0
for patch in "$root"/store/testdata/faults/*.patch; do
  all=$((all + 1))
  cd "$root" && rm -rf "$work/copy"
  git clone -q "$root" "$work/copy"
  cd "$work/copy"
  git apply "$patch"
  read -r -a tests <<<"$(sed -n '1s/^# //p' "$patch")"
  go vet "${tests[0]}" # a fault that does not compile is none
  if go test "${tests[@]}" -count=1 -timeout 10m >"$work/log" 2>&1; then
    echo "NOT FOUND  $(basename "$patch")"
  else
    echo "found      $(basename "$patch")  $(grep -m1 -o '^--- FAIL: [A-Za-z0-9_]*' "$work/log" || tail -1 "$work/log")"
    found=$((found + 1))
  fi
done
echo "$found of $all planted faults were found"
[ "$found" = "$all" ]
