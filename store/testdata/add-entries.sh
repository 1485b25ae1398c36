#!/usr/bin/env bash
# Adds an encoded entry to entries.txt for each kind and each field that has none there. Lines that are there stay as they are.
set -euo pipefail
cd "$(dirname "$0")/../.."
go test ./store -run '^TestGoldenEntries$' -count=1 -entries
