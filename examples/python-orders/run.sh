#!/usr/bin/env bash
# Runs the example on a throw-away database and checks it; clients/test.sh sets up what it needs.
cd "$(dirname "${BASH_SOURCE[0]}")"
exec python ../../clients/testing/gateway.py oncebox.toml --schema schema.sql python check.py
