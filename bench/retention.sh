#!/usr/bin/env bash
# Retention removing payloads while events come in: latencies beside rounds without it, and the sizes afterwards.
# Needs DATABASE_URL of an empty Postgres database that may be filled, psql, and the program (ONCEBOX, or target/release/oncebox).
#   ROWS (20000), ROUNDS (1 pair), SECONDS_EACH (3), CONNECTIONS (8, well below what saturates the machine)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bin=${ONCEBOX:-target/release/oncebox}
rows=${ROWS:-20000} rounds=${ROUNDS:-1} seconds=${SECONDS_EACH:-3} connections=${CONNECTIONS:-8}
work=$(mktemp -d)
server=
clean_up() {
    [[ -z $server ]] || kill "$server" 2>/dev/null || true
    [[ -z $server ]] || wait "$server" 2>/dev/null || true
    rm -rf "$work"
}
trap clean_up EXIT

sql() { psql "$DATABASE_URL" -XAtq -v ON_ERROR_STOP=1 -c "$1"; }
bytes() { sql "select coalesce(sum(pg_total_relation_size(inhrelid)), 0) from pg_inherits where inhparent = 'oncebox.payloads'::regclass"; }

cat >"$work/oncebox.toml" <<TOML
[server]
listen = "127.0.0.1:18480"
admin_listen = "127.0.0.1:18481"
[store]
url = "$DATABASE_URL"
[retention]
ledger = "30d"
payload = "14d"
[[source]]
name = "stripe"
provider = "stripe"
secrets = [{ value = "whsec_retention" }]
TOML

# A day of payloads that are over, with their events and identities.
fill() {
    local first=$1 day=$2
    sql "
    create table oncebox.payloads_d$day (like oncebox.payloads including defaults, primary key (key));
    alter table oncebox.payloads attach partition oncebox.payloads_d$day
        for values from ('$(key_at "$first")') to ('$(key_at $((first + 86400000)))');
    create temp table made as
        select n, (lpad(to_hex($first + n % 86000000), 12, '0') || '7' || substr(md5('a' || n || $first), 1, 3) ||
                   '8' || substr(md5('b' || n || $first), 1, 15))::uuid as key
        from generate_series(1, $rows) n;
    insert into oncebox.events select key, 'stripe', 'old_' || n || '_$day', 'invoice.paid', 'id',
        sha256(n::text::bytea), 'accepted', null, null, $first + n % 86000000 from made;
    insert into oncebox.ledger select md5('old' || n || $first)::uuid, key from made;
    insert into oncebox.payloads select key, '192.0.2.1', 'content-type: application/json', convert_to(repeat('x', 1024), 'UTF8') from made;"
}
key_at() { printf '%012x' "$1" | sed -E 's/^(.{8})(.{4})$/\1-\2-0000-0000-000000000000/'; }

"$bin" serve --config "$work/oncebox.toml" >"$work/log" 2>&1 &
server=$!
for _ in $(seq 100); do
    curl -fs http://127.0.0.1:18481/readyz >/dev/null 2>&1 && break
    sleep 0.1
done
# Prints one round of load: rate, latencies and the slowest of all.
load() {
    "$bin" bench --to http://127.0.0.1:18480/in/stripe --secret whsec_retention --connections "$connections" \
        --seconds "$seconds" --json >"$work/$1"
    python3 -c "
import json
said = json.load(open('$work/$1'))
one = said['rounds'][0] if 'rounds' in said else said
print('$1: {rate:.0f}/s, p50 {p50_ms:.2f} ms, p99 {p99_ms:.2f} ms, slowest {max_ms:.0f} ms, failed {failed}'.format(**one))"
}

now=$(($(date +%s) * 1000))
echo "empty: $(bytes) bytes of payloads"
for round in $(seq "$rounds"); do
    first=$(((now / 86400000 - 20 - round) * 86400000))
    fill "$first" "$(date -u -d "@$((first / 1000))" +%Y%m%d)"
    sql "analyze oncebox.payloads, oncebox.events, oncebox.ledger; checkpoint"
    echo "round $round: filled, $(bytes) bytes of payloads"
    load "alone_$round"
    ("$bin" retention run --config "$work/oncebox.toml" >"$work/run_$round" 2>&1; date +%s.%N >"$work/end_$round") &
    started=$(date +%s.%N)
    load "beside_$round"
    wait $!
    python3 -c "print('retention took %.1f s: %s' % ($(cat "$work/end_$round") - $started, open('$work/run_$round').read().strip()))"
    echo "round $round: $(bytes) bytes of payloads"
done
grep -E "partition|dropped|made|later" "$work/log" | tail -5 || true
