#!/bin/sh
# Installs packages/deb/dist/*.deb into an empty folder, runs what it installed, and removes it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT
fail() { echo "FAIL $*" >&2; exit 1; }
deb=$(ls "$here"/dist/*.deb) || fail "packages/deb/dist has no package: run make packages"
root=$top/root
mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates" "$root/tmp"
: > "$root/var/lib/dpkg/status"
as_dpkg() { dpkg --root="$root" --force-not-root --force-architecture --log="$top/log" "$@" > "$top/out" 2>&1 || { cat "$top/out"; fail "dpkg $*"; }; }

dpkg-deb --contents "$deb" | awk '$2 != "root/root" {bad = 1; print} END {exit bad}' || fail "files of another user than root"
dpkg-deb --info "$deb" | grep -q '^ Description: NEAR protocol node' || fail "no description"
# what it depends on is not in the folder
as_dpkg --force-depends --install "$deb"
(cd "$root" && md5sum --quiet -c var/lib/dpkg/info/troupe.md5sums) || fail "md5sums"
bin=$root/usr/bin/troupe
"$bin" version | grep -q '^troupe (release' || fail "the binary"
[ -x "$bin" ] || fail "not executable"

# bash completes commands with the installed file
cat > "$top/complete.sh" <<'END'
_get_comp_words_by_ref() { words=(troupe loca); cword=1; cur=loca; prev=troupe; }
__ltrim_colon_completions() { :; }
_filedir() { :; }
compopt() { :; }
. "$1"
COMP_WORDS=(troupe loca) COMP_CWORD=1 COMP_LINE='troupe loca' COMP_POINT=11 COMP_TYPE=9
__start_troupe troupe loca troupe
[ "${COMPREPLY[*]%% *}" = localnet ] || { declare -p COMPREPLY; exit 1; }
END
PATH=$root/usr/bin:$PATH bash "$top/complete.sh" "$root/usr/share/bash-completion/completions/troupe" || fail "completion of bash"
for shell in zsh fish; do
  file=$(find "$root/usr/share/$shell" -type f)
  grep -q troupe "$file" || fail "completion of $shell"
  if command -v $shell >/dev/null; then $shell -n "$file" || fail "completion of $shell"; else echo "no $shell: its completion was not parsed"; fi
done

unit=$root/usr/share/doc/troupe/examples/troupe.service
grep -q '^ExecStart=/usr/bin/troupe run' "$unit" || fail "the example of a unit"
grep -q '/usr/local' "$unit" && fail "the unit has another path"
grep -q 'Permission is hereby granted' "$root/usr/share/doc/troupe/copyright" || fail "copyright"

# a chain, as a new user
HOME=$top TMPDIR=$root/tmp "$bin" dev --accounts 1 --rpc-addr 127.0.0.1:0 > "$top/dev" 2>&1 &
pid=$!
for _ in $(seq 600); do grep -q '^Ctrl-C' "$top/dev" && break; kill -0 $pid || break; sleep 0.1; done
url=$(sed -n 's/^JSON-RPC  //p' "$top/dev")
"$bin" rpc status --url "$url" | grep -q '"chain_id": "sandbox"' || { cat "$top/dev"; kill $pid; fail "no chain"; }
kill $pid
wait $pid || true

as_dpkg --purge troupe
left=$(find "$root/usr" -type f 2>/dev/null || true)
[ -z "$left" ] || fail "left after its removal: $left"
echo "ok   $(basename "$deb"): installed, run and removed"
