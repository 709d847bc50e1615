#!/bin/sh
# A writer and two replicas behind an HTTP balancer, on this machine: ./run.sh [FOLDER]. Ctrl-C ends all of them.
# It needs haproxy (apt-get install haproxy), and troupe in PATH or named by TROUPE. docs/guide/replicas.md says more.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=${1:-./replicas}
: "${TROUPE:=troupe}" "${BALANCER:=127.0.0.1:3030}" "${WRITER:=127.0.0.1:3031}" "${REPLICA1:=127.0.0.1:3032}" "${REPLICA2:=127.0.0.1:3033}"
: "${NATS:=127.0.0.1:4222}" "${PROXIES:=127.0.0.1}" # PROXIES: addresses that haproxy connects from; it names the client
export BALANCER WRITER REPLICA1 REPLICA2

command -v haproxy >/dev/null || { echo "run.sh: haproxy is missing: apt-get install haproxy" >&2; exit 1; }
command -v "$TROUPE" >/dev/null || { echo "run.sh: $TROUPE is missing: put troupe into PATH, or name it by TROUPE" >&2; exit 1; }

mkdir -p "$root"
[ -e "$root/writer/config.json" ] || "$TROUPE" --home "$root/writer" init
for i in 1 2; do
    [ -e "$root/replica$i/config.json" ] || "$TROUPE" --home "$root/replica$i" init --genesis "$root/writer/genesis.json"
done

pids=
stop() {
    trap - INT TERM EXIT
    # shellcheck disable=SC2086 # they are numbers
    kill $pids 2>/dev/null || true
    wait
}
trap 'stop; exit 0' INT TERM
trap stop EXIT

# What the writer has not signed its replicas do not take.
key=$(sed -n 's/.*"public_key": *"\([^"]*\)".*/\1/p' "$root/writer/node_key.json")

# label NAME: prints what is written to the pipe NAME.log, each line behind NAME.
label() {
    rm -f "$root/$1.log"
    mkfifo "$root/$1.log"
    while IFS= read -r line; do printf '%s | %s\n' "$1" "$line"; done <"$root/$1.log" &
}
for name in writer replica1 replica2 haproxy; do label "$name"; done

"$TROUPE" --home "$root/writer" run --rpc-addr "$WRITER" --trusted-proxies "$PROXIES" --jetstream "$NATS" >"$root/writer.log" 2>&1 &
pids="$pids $!"
"$TROUPE" --home "$root/replica1" run --rpc-addr "$REPLICA1" --trusted-proxies "$PROXIES" --replica "nats://$NATS" --writer-key "$key" >"$root/replica1.log" 2>&1 &
pids="$pids $!"
"$TROUPE" --home "$root/replica2" run --rpc-addr "$REPLICA2" --trusted-proxies "$PROXIES" --replica "nats://$NATS" --writer-key "$key" >"$root/replica2.log" 2>&1 &
pids="$pids $!"
haproxy -f "$here/haproxy.cfg" >"$root/haproxy.log" 2>&1 &
pids="$pids $!"
echo "JSON-RPC at http://$BALANCER; writer $WRITER, replicas $REPLICA1 and $REPLICA2, NATS $NATS"
wait
