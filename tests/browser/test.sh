#!/usr/bin/env bash
# The dashboard in a real Chromium, against the real program: `dev` on SQLite and `serve` on Postgres. Nothing is
# skipped: what is missing is installed, or named and the run fails. Screenshots go to target/browser.
#
#   ONCEBOX                 the program; without it, whichever of target/release and target/debug is newer
#   ONCEBOX_TEST_POSTGRES   a server on which databases may be made; ci.sh starts one
#   ONCEBOX_CHROMIUM        a Chromium to use in place of the one from npm
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

source tests/lib.sh
find_program
need_node 20 11
export ONCEBOX_SCREENSHOTS=$PWD/target/browser
rm -rf "$ONCEBOX_SCREENSHOTS"
mkdir -p "$ONCEBOX_SCREENSHOTS"

cd tests/browser
npm ci --no-audit --no-fund --ignore-scripts --loglevel=error

# The browser from npm brings everything but a handful of libraries that most systems have.
if [[ -z ${ONCEBOX_CHROMIUM:-} ]]; then
    ONCEBOX_CHROMIUM=$(node find-chromium.mjs)
    if ! "$ONCEBOX_CHROMIUM" --version >/dev/null 2>&1; then
        apt_install libnss3 libexpat1 fonts-dejavu-core
        "$ONCEBOX_CHROMIUM" --version >/dev/null 2>&1 || { apt_install chromium && ONCEBOX_CHROMIUM=$(command -v chromium); }
    fi
    export ONCEBOX_CHROMIUM
fi
npm test --silent
echo "screenshots: target/browser"
