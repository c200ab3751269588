#!/usr/bin/env bash
# How long every page and every list of a running server takes: the median and the worst of so many requests, one after
# the other. Fails where a median is over the bound.
#
#   bench/pages.sh http://127.0.0.1:8081 [requests]
#
#   ONCEBOX_ADMIN_TOKEN   the operator's token, where there is one
#   ONCEBOX_PAGES         further URLs, a line each
#   ONCEBOX_PAGES_MAX_MS  the bound: 200
set -euo pipefail

admin=${1:?the URL of the admin listener}
requests=${2:-21}
bound=${ONCEBOX_PAGES_MAX_MS:-200}
auth=()
[[ -z ${ONCEBOX_ADMIN_TOKEN:-} ]] || auth=(-H "authorization: Bearer $ONCEBOX_ADMIN_TOKEN")

get() { curl -sS "${auth[@]}" "$@"; }

# The first value of this name in a list; nothing where the list is empty.
first() { get "$admin/api/v1/$1" | grep -o "\"$2\":\"[^\"]*\"" | head -n 1 | cut -d '"' -f 4 || true; }

# One of everything to look at; what is not there is left out.
event=$(first "events?limit=1" key)
source=$(first "events?limit=1" source)
old=$(first "events?limit=1000" next_cursor)
handler=$(get "$admin/api/v1/handlers" | grep -o '"handler":"[^"]*","configured":true' | head -n 1 | cut -d '"' -f 4 || true)
held=$(first "held?limit=1" key)
dead=$(first "dead-letters?limit=1" key)
message=$(first "outbox?limit=1" id)
destination=$(first destinations destination)
action=$(first "actions?limit=1" action_id)

urls=(
    /api/v1/overview /api/v1/stats /api/v1/sources "/api/v1/sources/$source" /api/v1/handlers /api/v1/destinations
    /api/v1/events "/api/v1/events?limit=1000" "/api/v1/events?cursor=$old" "/api/v1/events?source=$source"
    "/api/v1/events?type=nothing.like.this" "/api/v1/events?text=nowhere" "/api/v1/events?state=held"
    "/api/v1/events?state=conflict" "/api/v1/events?delivery_state=dead" "/api/v1/events?delivery_state=done"
    "/api/v1/events?since=1h" "/api/v1/events?until=24h" "/api/v1/events?id=$event" "/api/v1/events?body=nowhere-at-all"
    "/api/v1/events/$event" "/api/v1/events/$event/payload" /api/v1/deliveries "/api/v1/deliveries?state=done"
    "/api/v1/deliveries?state=discarded" /api/v1/dead-letters /api/v1/dead-letters/groups /api/v1/held /api/v1/outbox
    "/api/v1/outbox?state=sent" /api/v1/rejections /api/v1/actions /api/v1/retention /api/openapi.json /api/docs
    /metrics /readyz

    / /tail "/tail?source=$source" /events "/events?cursor=$old" "/events?source=$source" "/events?state=held"
    "/events?type=nothing.like.this" "/events?text=nowhere" "/events?delivery_state=dead" "/events?body=nowhere-at-all"
    "/events?since=1h" "/events/$event" /dead-letters /held "/held?source=$source" /rejections
    /sources "/sources/$source" /handlers /destinations /outbox "/outbox?state=sent" /retention /audit
    "/act/forget?key=$event" "/act/release?key=${held:-$event}" "/act/discard?key=${dead:-$event}"
    "/act/replay?source=$source" "/act/release?source=$source" "/act/discard?source=$source"
)
[[ -z $handler ]] || urls+=("/act/pause?handler=$handler" "/act/replay?handler=$handler" "/dead-letters?handler=$handler")
[[ -z $message ]] || urls+=("/api/v1/outbox/$message" "/outbox/$message" "/act/discard?message=$message")
[[ -z $destination ]] || urls+=("/act/replay?destination=$destination")
[[ -z $action ]] || urls+=("/audit/$action")
while IFS= read -r line; do
    [[ -z $line ]] || urls+=("$line")
done <<<"${ONCEBOX_PAGES:-}"

slow=0
printf '%10s %10s  %s\n' 'median ms' 'worst ms' 'page'
for url in "${urls[@]}"; do
    times=$(for _ in $(seq "$requests"); do
        get -o /dev/null -w '%{time_total} %{http_code}\n' "$admin$url"
    done)
    status=$(awk '{ print $2 }' <<<"$times" | sort -u | tr '\n' ' ')
    read -r median worst < <(awk '{ print $1 * 1000 }' <<<"$times" | sort -n |
        awk '{ t[NR] = $1 } END { printf "%.1f %.1f\n", t[int((NR + 1) / 2)], t[NR] }')
    printf '%10s %10s  %s\n' "$median" "$worst" "$url"
    [[ $status == '200 ' ]] || { echo "           answered $status" && slow=1; }
    awk -v m="$median" -v b="$bound" 'BEGIN { exit !(m > b) }' && { echo "           over $bound ms" && slow=1; }
done
exit "$slow"
