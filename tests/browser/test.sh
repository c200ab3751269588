#!/usr/bin/env bash
# The dashboard in a real Chromium, against the real program: `dev` on SQLite and `serve` on Postgres. Nothing is
# skipped: what is missing is installed, or named and the run fails. Screenshots go to target/browser.
#
#   ONCEBOX                 the program; without it, whichever of target/release and target/debug is newer
#   ONCEBOX_TEST_POSTGRES   a server on which databases may be made; ci.sh starts one
#   ONCEBOX_CHROMIUM        a Chromium to use in place of the one from npm
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

stop() {
    echo "tests/browser/test.sh: $*" >&2
    exit 1
}

apt_install() {
    [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null || stop "$1 is missing: install it"
    apt-get update >&2
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >&2
}

[[ -n ${ONCEBOX_TEST_POSTGRES:-} ]] || stop "ONCEBOX_TEST_POSTGRES is not set: ./ci.sh starts a server and sets it"
if [[ -z ${ONCEBOX:-} ]]; then
    ONCEBOX=$(ls -t target/release/oncebox target/debug/oncebox 2>/dev/null | head -n 1 || true)
fi
[[ -x $ONCEBOX ]] || stop "the program is not built: cargo build"
ONCEBOX=$(realpath "$ONCEBOX")
export ONCEBOX ONCEBOX_SCREENSHOTS=$PWD/target/browser
rm -rf "$ONCEBOX_SCREENSHOTS"
mkdir -p "$ONCEBOX_SCREENSHOTS"

command -v node >/dev/null && command -v npm >/dev/null || apt_install nodejs npm
# Debian's own node may be older than what the browser's package is written for.
is_node_new() { node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 20 || (a == 20 && b >= 11) ? 0 : 1)'; }
if ! is_node_new; then
    npm install --prefix target/node --no-audit --no-fund --loglevel=error node@22
    export PATH=$PWD/target/node/node_modules/.bin:$PATH
    is_node_new || stop "node 20.11 or newer is needed"
fi
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
