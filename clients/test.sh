#!/usr/bin/env bash
# The clients' tests and examples, on a real Postgres and the real program. Nothing is skipped: what is missing is
# installed, or named and the run fails.
#
#   ONCEBOX                 the program; without it, whichever of target/release and target/debug is newer
#   ONCEBOX_TEST_POSTGRES   a server on which databases may be made; ci.sh starts one
#   ONCEBOX_STORM_EVENTS, ONCEBOX_STORM_CONSUMERS   the size of the storm: 1000 events and 4 consumers of each language;
#                           20000 and 20 is the full one
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

stop() {
    echo "clients/test.sh: $*" >&2
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
export ONCEBOX

command -v node >/dev/null && command -v npm >/dev/null || apt_install nodejs npm
# Debian's own node may be older than what the client is written for.
is_node_new() { node -e 'process.exit(Number.parseInt(process.versions.node, 10) < 20 ? 1 : 0)'; }
if ! is_node_new; then
    npm install --prefix target/node --no-audit --no-fund --loglevel=error node@22
    export PATH=$PWD/target/node/node_modules/.bin:$PATH
    is_node_new || stop "node 20 or newer is needed"
fi
venv=$PWD/target/clients-venv
if [[ ! -x $venv/bin/pip ]]; then
    python3 -m venv "$venv" >/dev/null 2>&1 || { apt_install python3-venv && python3 -m venv --clear "$venv"; }
fi
"$venv/bin/pip" install --quiet --disable-pip-version-check --editable 'clients/python[test]'
(cd clients/typescript && npm ci --no-audit --no-fund --ignore-scripts --loglevel=error && npm run --silent build)

step() {
    local started=$SECONDS title=$1
    shift
    echo "-- $title"
    "$@" || stop "$title failed"
    echo "-- $title: $((SECONDS - started)) s"
}

step "python: types" "$venv/bin/mypy" --cache-dir target/mypy --config-file clients/python/pyproject.toml clients/python/src
step "python: tests" "$venv/bin/pytest" -q -p no:cacheprovider clients/python
step "python: package" "$venv/bin/pip" wheel --quiet --no-deps --wheel-dir target/clients-wheel clients/python
gateway=("$venv/bin/python" clients/testing/gateway.py)
step "typescript: tests" "${gateway[@]}" clients/testing/oncebox.toml npm --prefix clients/typescript test --silent
step "typescript: package" bash -c 'cd clients/typescript && npm pack --dry-run --ignore-scripts --loglevel=error'
step "storm" "$venv/bin/python" clients/testing/storm.py
step "example: Stripe orders in Python" env PATH="$venv/bin:$PATH" bash examples/python-orders/run.sh
step "example: GitHub deployments in TypeScript" env PATH="$venv/bin:$PATH" bash examples/typescript-deployments/run.sh
