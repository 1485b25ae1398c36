#!/usr/bin/env bash
# Writes the golden store of the format of this release, as text. It is done once, when a release raises the format, before it is
# released; the texts of earlier formats stay as they are.
set -euo pipefail
cd "$(dirname "$0")/../../.."
go test ./host -run '^TestGoldenStores$' -count=1 -timeout 5m -golden
