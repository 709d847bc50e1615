#!/usr/bin/env bash
# Second step of action.yml: starts a chain that runs until the job ends, and publishes its URL.
set -euo pipefail
log=${RUNNER_TEMP:?}/troupe/dev.log
# The runner ends what a job leaves behind. The node must not have the output of this step, which would not end.
read -ra more <<<"$ARGS"
: >"$log" # the loop must not read what an earlier chain of the job wrote, nor find no file
nohup troupe dev --rpc-addr "127.0.0.1:$PORT" --accounts "$ACCOUNTS" "${more[@]}" >"$log" 2>&1 </dev/null &
pid=$!
for ((i = 0; i < 600; i++)); do
  url=$(sed -n 's/^JSON-RPC  //p' "$log")
  if [[ -n $url ]]; then
    printf 'url=%s\npid=%s\n' "$url" $pid >>"$GITHUB_OUTPUT"
    echo "TROUPE_SANDBOX_URL=$url" >>"$GITHUB_ENV"
    cat "$log"
    exit
  fi
  kill -0 $pid 2>/dev/null || break
  sleep 0.1
done
cat "$log"
kill $pid 2>/dev/null || true
echo "::error::troupe dev did not start; its output is above"
exit 1
