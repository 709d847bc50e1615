#!/usr/bin/env bash
# Runs the steps of action.yml as its runner does, with the release in dist/ in the place of GitHub.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
top=$(mktemp -d)
pid=
trap '[[ -z $pid ]] || kill "$pid" 2>/dev/null || true; rm -rf "$top"' EXIT
fail() { echo "FAIL $*" >&2; exit 1; }
tarball=$(ls "$root"/dist/troupe-*-linux-amd64.tar.gz) || fail "dist has no release: run make packages"

# the files of a release with this name
old=$(basename "$tarball" .tar.gz) new=troupe-v9.9.9-linux-amd64
mkdir -p "$top/release/$new"
tar -xzf "$tarball" -C "$top/release" "$old/troupe"
mv "$top/release/$old/troupe" "$top/release/$new/troupe"
(cd "$top/release" && tar -cf - "$new" | gzip -1 >"$new.tar.gz" && sha256sum "$new.tar.gz" >SHA256SUMS && rm -r "$new" "$old")

# a step has only these variables
step() {
  env -i HOME="$top" PATH="$top/path:$PATH" RUNNER_TEMP="$top/temp" TMPDIR="$top" GITHUB_PATH="$top/github_path" \
    GITHUB_OUTPUT="$top/output" GITHUB_ENV="$top/env" "${@:2}" bash "$root/packages/action/$1.sh" >"$top/out" 2>&1
}
install() { step install VERSION="$1" DOWNLOAD_URL="$2"; }
refused() { grep -q "::error::.*$1" "$top/out" || { cat "$top/out"; fail "no error with $1"; }; }
mkdir "$top/temp" "$top/path"
url=file://$top/release

install main "$url" && fail "it installed main"
refused "version is 'main', must be a release"
install v1.1.1 "$url" && fail "it installed what is not there"
refused "cannot download"
install v9.9.9 "$url" || { cat "$top/out"; fail "install"; }
grep -q '^troupe (release' "$top/out" || fail "no version"
binary=$(cat "$top/github_path")/troupe
[[ -x $binary ]] || fail "$binary is no binary"
ln -s "$binary" "$top/path/troupe"

step start ACCOUNTS=2 PORT=0 ARGS="--balance 7 --shards 2" || { cat "$top/out"; fail "start"; }
rpc=$(sed -n 's/^url=//p' "$top/output")
[[ -n $rpc && "TROUPE_SANDBOX_URL=$rpc" == "$(cat "$top/env")" ]] || fail "outputs"
pid=$(sed -n 's/^pid=//p' "$top/output")
kill -0 "$pid" || fail "no process"
account=$("$binary" account dev1.near --url "$rpc" 2>&1) || true
[[ $account == *"7 NEAR"* ]] || fail "no account: $account"
step start ACCOUNTS=1 PORT="${rpc##*:}" ARGS= && fail "it started at a port in use"
grep -q 'in use' "$top/out" || { cat "$top/out"; fail "no word of the port"; }
step start ACCOUNTS=1 PORT=0 ARGS=--no-such-flag && fail "it started with a wrong argument"
refused "did not start"

# a file that was changed on its way
printf x >>"$top/release/$new.tar.gz"
install v9.9.9 "$url" && fail "it installed another file"
refused "is not the file of the release"

# each script and variable of action.yml is there, and the other way round
for script in install start; do
  grep -q "packages/action/$script.sh" "$root/action.yml" || fail "action.yml does not run $script.sh"
  for name in $(grep -o '\$[A-Z_]*\b\|\${[A-Z_]*' "$root/packages/action/$script.sh" | tr -d '${' | sort -u); do
    case $name in GITHUB_* | RUNNER_TEMP | "") ;; *) grep -q "^ *$name: " "$root/action.yml" || fail "action.yml does not set $name" ;; esac
  done
done
echo "ok   the steps of action.yml"
