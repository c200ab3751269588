# What the scripts that test the real program share; `cd` to the root first, then source it.
# shellcheck shell=bash

stop() {
    echo "$0: $*" >&2
    exit 1
}

apt_install() {
    [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null || stop "$1 is missing: install it (Debian: apt-get install $*)"
    apt-get update >&2
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >&2
}

# Sets ONCEBOX, and makes sure of ONCEBOX_TEST_POSTGRES.
find_program() {
    [[ -n ${ONCEBOX_TEST_POSTGRES:-} ]] || stop "ONCEBOX_TEST_POSTGRES is not set: ./ci.sh starts a server and sets it"
    if [[ -z ${ONCEBOX:-} ]]; then
        ONCEBOX=$(ls -t target/release/oncebox target/debug/oncebox 2>/dev/null | head -n 1 || true)
    fi
    [[ -x $ONCEBOX ]] || stop "the program is not built: cargo build"
    ONCEBOX=$(realpath "$ONCEBOX")
    export ONCEBOX
}

# Makes a Python environment in a folder below target, and installs into it.
python_with() {
    venv=$PWD/target/$1
    shift
    if [[ ! -x $venv/bin/pip ]]; then
        command -v python3 >/dev/null || apt_install python3 python3-venv
        python3 -m venv "$venv" >/dev/null 2>&1 || { apt_install python3-venv && python3 -m venv --clear "$venv"; }
    fi
    "$venv/bin/pip" install --quiet --disable-pip-version-check "$@"
}

# Makes sure of node and npm. Debian's own node may be older than what is written here.
need_node() {
    local major=$1 minor=$2
    command -v node >/dev/null && command -v npm >/dev/null || apt_install nodejs npm
    is_node_new "$major" "$minor" && return
    npm install --prefix target/node --no-audit --no-fund --loglevel=error node@22
    export PATH=$PWD/target/node/node_modules/.bin:$PATH
    is_node_new "$major" "$minor" || stop "node $major.$minor or newer is needed"
}

is_node_new() {
    node -e 'const [have, want] = [process.versions.node.split(".").map(Number), process.argv.slice(1).map(Number)];
        process.exit(have[0] > want[0] || (have[0] === want[0] && have[1] >= want[1]) ? 0 : 1)' "$1" "$2"
}
