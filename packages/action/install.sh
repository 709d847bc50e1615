#!/usr/bin/env bash
# First step of action.yml: downloads a release, checks its sum, and adds the binary to PATH of the following steps.
set -euo pipefail
fail() { echo "::error::$*"; exit 1; }

[[ $VERSION =~ ^v[0-9]+\.[0-9]+\.[0-9]+([-.+][0-9A-Za-z.-]+)?$ ]] ||
  fail "version is '$VERSION', must be a release such as v0.1.0: set the input version, or use the action at a release"
case $(uname -sm) in
"Linux x86_64") platform=linux-amd64 ;;
*) fail "there is no release for $(uname -sm), only for Linux x86_64" ;;
esac
name=troupe-$VERSION-$platform
from=${DOWNLOAD_URL:-https://github.com/troupe-chain/troupe/releases/download/$VERSION}
folder=${RUNNER_TEMP:?}/troupe
mkdir -p "$folder"
cd "$folder"
for file in "$name.tar.gz" SHA256SUMS; do
  curl --fail --silent --show-error --location --retry 3 --max-time 300 --output "$file" "$from/$file" ||
    fail "cannot download $from/$file"
done
sum=$(awk -v file="$name.tar.gz" '$2 == file' SHA256SUMS)
[[ -n $sum ]] || fail "SHA256SUMS of $VERSION has no sum of $name.tar.gz"
sha256sum --check --quiet <<<"$sum" || fail "$name.tar.gz is not the file of the release"
tar -xzf "$name.tar.gz" "$name/troupe"
"./$name/troupe" version
echo "$folder/$name" >>"$GITHUB_PATH"
