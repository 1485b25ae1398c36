#!/usr/bin/env bash
# Plants each fault of this folder into a copy of the repository and shows that the simulator finds it. N is the number of
# seeds, 3000 by default.
set -euo pipefail
root=$(cd "$(dirname "$0")/../../../../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
found=0 all=0
for patch in "$root"/host/internal/sim/testdata/faults/*.patch; do
  all=$((all + 1))
  cd "$root" && rm -rf "$work/copy"
  git clone -q "$root" "$work/copy"
  cd "$work/copy"
  git apply "$patch"
  if go test ./host/internal/sim -run TestSeeds -count=1 -timeout 10m -sim.n="${N:-3000}" >"$work/log" 2>&1; then
    echo "NOT FOUND  $(basename "$patch")"
  elif grep -q "repeat it with: make simulate" "$work/log"; then
    echo "found      $(basename "$patch"): $(grep -o -m1 'seed [0-9]*, step [0-9]*: [^:]*' "$work/log")"
    found=$((found + 1))
  else
    cat "$work/log"
    exit 1
  fi
done
echo "$found of $all planted faults were found"
[ "$found" = "$all" ]
