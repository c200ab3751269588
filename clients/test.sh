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

source tests/lib.sh
find_program
need_node 20 0
python_with clients-venv --editable 'clients/python[test]'
(cd clients/typescript && npm ci --no-audit --no-fund --ignore-scripts --loglevel=error && npm run --silent build)

step() {
    local started=$SECONDS title=$1
    shift
    echo "-- $title"
    "$@" || stop "$title failed"
    echo "-- $title: $((SECONDS - started)) s"
}

# Each package carries the licences that it names.
licences() {
    local file wheel pack
    wheel=$("$venv/bin/python" -m zipfile -l target/clients-wheel/oncebox-*.whl) || return
    pack=$(cd clients/typescript && npm pack --dry-run --ignore-scripts --json --loglevel=error) || return
    for file in LICENSE-MIT LICENSE-APACHE; do
        cmp "$file" "clients/python/$file" && cmp "$file" "clients/typescript/$file" || return
        [[ $wheel == *"$file"* && $pack == *"$file"* ]] || return
    done
}

# An application that has nothing but a path to the package: npm must build it by itself.
installs_from_a_path() {
    local app=target/clients-app
    rm -rf "$app" && mkdir -p "$app"
    tar -C clients/typescript -cf - --exclude node_modules --exclude dist --exclude build . | (mkdir "$app/oncebox" && tar -C "$app/oncebox" -xf -)
    echo '{ "private": true, "type": "module" }' > "$app/package.json"
    (cd "$app" && npm install --no-audit --no-fund --loglevel=error ./oncebox && node -e 'import("oncebox").then((it) => it.once.call)')
}

step "python: types" "$venv/bin/mypy" --cache-dir target/mypy --config-file clients/python/pyproject.toml clients/python/src
step "python: tests" "$venv/bin/pytest" -q -p no:cacheprovider clients/python
step "python: package" "$venv/bin/pip" wheel --quiet --no-deps --wheel-dir target/clients-wheel clients/python
gateway=("$venv/bin/python" clients/testing/gateway.py)
step "typescript: tests" "${gateway[@]}" clients/testing/oncebox.toml --large h50 npm --prefix clients/typescript test --silent
step "typescript: package" bash -c 'cd clients/typescript && npm pack --dry-run --ignore-scripts --loglevel=error'
step "packages: licences" licences
step "typescript: install from a path" installs_from_a_path
step "storm" "$venv/bin/python" clients/testing/storm.py
step "example: Stripe orders in Python" env PATH="$venv/bin:$PATH" bash examples/python-orders/run.sh
step "example: GitHub deployments in TypeScript" env PATH="$venv/bin:$PATH" bash examples/typescript-deployments/run.sh
