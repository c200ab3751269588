#!/usr/bin/env bash
# The admin API against an outside tool: schemathesis reads /api/openapi.json of the real program, makes up requests
# for every route, and fails on any 5xx and on any answer that is not as the document says. Both databases.
#
#   ONCEBOX                  the program; without it, whichever of target/release and target/debug is newer
#   ONCEBOX_TEST_POSTGRES    a server on which databases may be made; ci.sh starts one
#   ONCEBOX_FUZZ_EXAMPLES    requests made up for each route: 10; 500 is the long run
#   ONCEBOX_FUZZ_SEED        the seed: 7, so that a red run is red again; another one finds other things
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

source tests/lib.sh
find_program
python_with fuzz-venv 'schemathesis>=4,<5' 'openapi-spec-validator>=0.7,<1' 'psycopg[binary]>=3,<4'

examples=${ONCEBOX_FUZZ_EXAMPLES:-10}
seed=${ONCEBOX_FUZZ_SEED:-7}
token=fuzz-operator-$RANDOM$RANDOM
work=$(mktemp -d)
server=
clean_up() {
    [[ -z $server ]] || kill "$server" 2>/dev/null || true
    rm -rf "$work"
}
trap clean_up EXIT
echo "-- seed $seed, $examples requests for each route"

free_port() { "$venv/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# A server with a few events of every kind: accepted, duplicate, held, dead.
start() {
    local url=$1 listen admin
    listen=127.0.0.1:$(free_port)
    admin=127.0.0.1:$(free_port)
    cat >"$work/oncebox.toml" <<TOML
[server]
listen = "$listen"
admin_listen = "$admin"
admin_token = { value = "$token" }
[store]
url = "$url"
[[source]]
name = "stripe"
provider = "stripe"
secrets = [{ value = "whsec_fuzz" }]
[[source]]
name = "open"
provider = "custom"
verify = "none"
insecure = true
id = "json:/id"
type = "json:/type"
[[handler]]
name = "pull"
pull = true
[[handler]]
name = "fails"
sql = "select nothing from nowhere"
retry = { attempts = 1, base = "1s", cap = "1s" }
TOML
    "$ONCEBOX" serve --config "$work/oncebox.toml" >"$work/log" 2>&1 &
    server=$!
    base=http://$admin
    for _ in $(seq 150); do
        curl -fsS "$base/readyz" >/dev/null 2>&1 && break
        kill -0 "$server" 2>/dev/null || { cat "$work/log" >&2; stop "the server did not start"; }
        sleep 0.2
    done
    "$ONCEBOX" send stripe --to "http://$listen/in/stripe" --secret whsec_fuzz --count 5 --copies 3 >/dev/null
    curl -fsS -o /dev/null -d '{"type":"t"}' "http://$listen/in/open"
    curl -fsS -o /dev/null -d '{"id":"<script>alert(1)</script>","type":"t"}' "http://$listen/in/open"
}

fuzz() {
    local name=$1 url=$2
    start "$url"
    curl -fsS -H "authorization: Bearer $token" "$base/api/openapi.json" >"$work/openapi.json"
    "$venv/bin/python" -m openapi_spec_validator "$work/openapi.json" || stop "the document is not valid OpenAPI"
    # The tail never ends, and a wait for a handshake lasts as long as it was asked to.
    # What the tool remembers of a run goes with the work folder.
    (cd "$work" && "$venv/bin/schemathesis" run openapi.json --url "$base" --header "Authorization: Bearer $token" \
        --exclude-path /api/v1/tail --exclude-path '/api/v1/sources/{name}/arm' \
        --checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,response_headers_conformance \
        --phases examples,coverage,fuzzing --max-examples "$examples" --seed "$seed" --request-timeout 30 \
        --suppress-health-check all --workers 1 --no-color) ||
        { tail -n 40 "$work/log" >&2; stop "$name: the answers are not as the document says"; }
    kill -0 "$server" || stop "$name: the server ended"
    ! grep -q 'panicked' "$work/log" || { grep -A5 'panicked' "$work/log" >&2; stop "$name: a panic"; }
    kill "$server"
    wait "$server" || stop "$name: the server did not stop well"
    server=
    echo "-- $name: ok"
}

fuzz SQLite "sqlite:$work/fuzz.db"
database=fuzz_$$_$RANDOM
"$venv/bin/python" - "$ONCEBOX_TEST_POSTGRES" "$database" <<'PYTHON'
import sys
import psycopg

with psycopg.connect(sys.argv[1], autocommit=True) as connection:
    connection.execute(f'create database "{sys.argv[2]}"')
PYTHON
fuzz Postgres "${ONCEBOX_TEST_POSTGRES%/*}/$database"
