#!/usr/bin/env bash
# Runs every command of the README, on ports and files of its own, and checks what the README promises.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
port=$((20000 + RANDOM % 12000)) # below the range that the system hands out
export ONCEBOX_LISTEN="127.0.0.1:$port" ONCEBOX_ADMIN_LISTEN="127.0.0.1:$((port + 1))"
export ONCEBOX_DATABASE="sqlite:$work/oncebox.db"
server=""
stop() {
    [ -z "$server" ] || { kill "$server" 2>/dev/null && wait "$server" 2>/dev/null; } || true
    rm -rf "$work"
}
trap stop EXIT

fail() {
    echo "readme: $1" >&2
    [ ! -f "$work/dev.log" ] || tail -n 20 "$work/dev.log" >&2
    exit 1
}

# The README's shell blocks, a command a line.
commands=$(awk '/^```sh$/ { inside = 1; next } /^```$/ { inside = 0 } inside' README.md)
[ "$(printf '%s\n' "$commands" | head -n 1)" = "cargo run --release -- dev" ] || fail "the first command is not dev"

# cargo run would leave the server behind when it is killed: build as it does, then run what it runs.
cargo build --release --quiet
# And see that it would: with two programs in the workspace it asks which one is meant.
cargo run --release --quiet -- --version >/dev/null || fail "the first command does not start the program"
target/release/oncebox dev >"$work/dev.log" 2>&1 &
server=$!
for _ in $(seq 100); do
    env -u ONCEBOX_DATABASE target/release/oncebox status --admin-url "http://127.0.0.1:$((port + 1))" >/dev/null 2>&1 && break
    sleep 0.1
done

run() {
    case $1 in
        "cargo run --release -- dev" | "./ci.sh") return ;; # running already; running this
        *" send "*) eval "$1 --to http://127.0.0.1:$port --json" ;;
        *" events") eval "$1 --admin-url http://127.0.0.1:$((port + 1)) --json" ;;
        *) eval "$1" ;;
    esac
}
while read -r command; do
    echo "readme: $command"
    run "$command" >"$work/out" || fail "$command failed: $(cat "$work/out")"
    case $command in
        *"--copies 50"*) grep -q '"accepted": *1\b' "$work/out" && grep -q '"duplicate": *49\b' "$work/out" ||
            fail "fifty copies were not stored once: $(cat "$work/out")" ;;
        *"--tamper"* | *"--age"*) grep -q '"rejected": *1\b' "$work/out" || fail "$command was not rejected" ;;
        *" events") [ "$(grep -o '"key"' "$work/out" | wc -l)" = 1 ] || fail "not one event: $(cat "$work/out")" ;;
    esac
done <<<"$commands"

# The sample config is a right one.
awk '/^```toml$/ { inside = 1; next } /^```$/ { inside = 0 } inside' README.md >"$work/oncebox.toml"
env -u ONCEBOX_LISTEN -u ONCEBOX_ADMIN_LISTEN -u ONCEBOX_DATABASE STRIPE_WEBHOOK_SECRET=whsec_x APPLICATION_SECRET=x \
    target/release/oncebox check --config "$work/oncebox.toml" || fail "the sample config is refused"

# Two rejected requests and fifty copies later there is one event.
stored=$(target/release/oncebox status --admin-url "http://127.0.0.1:$((port + 1))" --json | grep -o '"ledger_rows": *[0-9]*')
[ "${stored##*[: ]}" = 1 ] || fail "the ledger does not hold one row: $stored"
echo "readme: every command did what it says"
