#!/bin/sh
# Tests the packed crate: unpacks dist/*.crate in a temporary folder with a new HOME, and runs there its own
# tests, clippy, rustdoc, and the examples of its README in projects of their own. The argument is the binary of troupe.
# With --quick only the project of the first example.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
binary=$(realpath "$1")
top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT
export RUSTUP_HOME="${RUSTUP_HOME:-$HOME/.rustup}" CARGO_TERM_COLOR=never
export FT_WASM="$here/../../internal/testkit/contracts/c/ft.wasm"
cargo=$(command -v cargo)
PATH="$(dirname "$cargo"):$PATH"
mkdir "$top/home" "$top/tmp" "$top/bin"
export HOME="$top/home" TMPDIR="$top/tmp" CARGO_TARGET_DIR="$top/target"
unset CARGO_HOME TROUPE_BIN || true

run() {
  what=$1
  shift
  begin=$(date +%s)
  if "$@" > "$top/log" 2>&1; then
    echo "ok   $what: $(($(date +%s) - begin)) s"
    grep -E '^test result' "$top/log" | sed 's/^/     /' || true
  else
    echo "FAIL $what"
    tail -n 100 "$top/log"
    exit 1
  fi
}

tar -xzf "$here"/dist/troupe-sandbox-*.crate -C "$top"
crate=$(echo "$top"/troupe-sandbox-*)
for f in LICENSE-MIT LICENSE-APACHE README.md src/lib.rs; do
  test -f "$crate/$f" || { echo "FAIL the crate has no $f"; exit 1; }
done

# a project as the README says, with the binary in PATH
mkdir -p "$top/project/tests" "$top/project/src"
cat > "$top/project/Cargo.toml" <<EOF
[package]
name = "project"
version = "0.0.0"
edition = "2021"
[dev-dependencies]
troupe-sandbox = { path = "$crate" }
tokio = { version = "1", features = ["macros", "rt"] }
serde_json = "1"
EOF
readme_file() { # the block of the README below <!-- file NAME -->
  sed -n "\\|^<!-- file $1 -->\$|,/^\`\`\`\$/p" "$crate/README.md" | grep -vE '^(<!--|```)'
}
touch "$top/project/src/lib.rs"
readme_file tests/worlds.rs > "$top/project/tests/worlds.rs"
ln -s "$binary" "$top/bin/troupe"
cd "$top/project"
run "the first example of the README" env PATH="$top/bin:$PATH" cargo test
grep -q 'test alice_pays_bob ... ok' "$top/log" || { echo "FAIL the example ran no test"; exit 1; }

if [ "${2:-}" != --quick ]; then
  export TROUPE_BIN="$binary"
  target=wasm32-unknown-unknown
  if [ -d "$(rustc --print target-libdir --target $target)" ]; then
    mkdir -p "$top/club/src" "$top/club/tests"
    cd "$top/club"
    { sed '/^\[dev-dependencies\]/,$d' ../project/Cargo.toml && readme_file Cargo.toml; } > Cargo.toml
    sed -n '/^\[dev-dependencies\]/,$p' ../project/Cargo.toml | sed 1d > dev
    sed -i.bak '/^\[dev-dependencies\]/r dev' Cargo.toml
    for f in src/lib.rs tests/club.rs; do readme_file $f > $f; done
    run "the contract of the README" cargo test
    grep -q 'test joining_has_a_price ... ok' "$top/log" || { echo "FAIL the example ran no test"; exit 1; }
    grep -q '^compiling the contract .*/club ' "$top/log" || { echo "FAIL the test does not say that it compiles"; exit 1; }
  else
    echo "skip the contract of the README: rustup target add $target"
  fi
  cd "$crate"
  run "every part of the API" cargo test --all-features
  run "clippy" cargo clippy --all-features --all-targets -- -D warnings
  run "rustdoc" env RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --all-features
  run "clippy without features" cargo clippy -- -D warnings
fi
left=$(ls "$TMPDIR" | grep '^troupe-' || true)
test -z "$left" || { echo "FAIL left in the temporary folder: $left"; exit 1; }
