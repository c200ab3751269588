#!/usr/bin/env bash
# Runs the example on a throw-away database and checks it; clients/test.sh sets up what it needs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
npm install --no-audit --no-fund --no-package-lock --ignore-scripts --loglevel=error
npm run --silent build
exec python ../../clients/testing/gateway.py oncebox.toml --schema schema.sql node dist/check.js
