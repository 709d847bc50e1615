#!/bin/sh
# Builds packages/deb/dist/troupe_VERSION_ARCH.deb: pack.sh BINARY VERSION. The binary is in the folder of a release, and
# the version as git describe prints it.
set -eu
umask 022
binary=$1 version=${2#v}
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..

# v1.2.3-4-gabc is after 1.2.3; a commit without a tag before it is before every version
case $version in
[0-9]*.[0-9]*) version=$(echo "$version" | sed 's/-\([0-9]*\)-g/+\1.g/; s/-/~/g') ;;
*) version=0~git.$(echo "$version" | tr -c 'a-zA-Z0-9.\n' .) ;;
esac
# the architecture and the libraries of the binary, not of this machine
case $(LC_ALL=C readelf -h "$binary" | sed -n 's/ *Machine: *//p') in
*X86-64) arch=amd64 ;;
AArch64) arch=arm64 ;;
*) echo "$binary: not a binary for amd64 or arm64" >&2; exit 1 ;;
esac
depends=
if LC_ALL=C readelf -lW "$binary" | grep -q INTERP; then
  glibc=$(LC_ALL=C readelf -W --version-info "$binary" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -Vu | tail -n 1)
  depends="Depends: libc6 (>= $glibc), libgcc-s1"
fi

rm -rf "$here/dist"
tree=$here/dist/tree
doc=$tree/usr/share/doc/troupe
install -D -m 0755 "$binary" "$tree/usr/bin/troupe"
from=$(dirname "$binary")/completions
install -D -m 0644 "$from/troupe" "$tree/usr/share/bash-completion/completions/troupe"
install -D -m 0644 "$from/_troupe" "$tree/usr/share/zsh/vendor-completions/_troupe"
install -D -m 0644 "$from/troupe.fish" "$tree/usr/share/fish/vendor_completions.d/troupe.fish"
mkdir -p "$doc/examples" "$tree/DEBIAN"
cp "$root/README.md" "$doc/README.md"
gzip -9n < "$root/CHANGELOG.md" > "$doc/changelog.gz"
sed 's,/usr/local/bin/troupe,/usr/bin/troupe,g; s/^# A Troupe node.*/# A Troupe node as a service of its own user. Copy this file into \/etc\/systemd\/system, then:/' \
  "$root/deploy/systemd/troupe.service" > "$doc/examples/troupe.service"
{
  printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n'
  printf 'Upstream-Name: troupe\nSource: https://github.com/troupe-chain/troupe\n\n'
  printf 'Files: *\nCopyright: the authors of Troupe\nLicense: Expat or Apache-2.0\n\n'
  printf 'License: Expat\n'
  sed 's/^$/./; s/^/ /' "$root/LICENSE-MIT"
  printf '\nLicense: Apache-2.0\n On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.\n'
} > "$doc/copyright"
{
  printf 'Package: troupe\nVersion: %s\nArchitecture: %s\nMaintainer: Troupe <https://github.com/troupe-chain/troupe>\n' "$version" "$arch"
  printf 'Section: net\nPriority: optional\nHomepage: https://github.com/troupe-chain/troupe\n'
  printf 'Installed-Size: %s\n' "$(du -sk "$tree/usr" | cut -f 1)"
  [ -z "$depends" ] || printf '%s\n' "$depends"
  printf 'Description: NEAR protocol node, and a sandbox for tests\n'
  printf ' Troupe runs a whole NEAR chain in one process, with instant blocks, a chain for\n'
  printf ' each test, forks, traces and a console. It also runs local networks of validators\n'
  printf ' and follows chains for indexers.\n'
} > "$tree/DEBIAN/control"
(cd "$tree" && find usr -type f -exec md5sum {} + | LC_ALL=C sort -k 2) > "$tree/DEBIAN/md5sums"
SOURCE_DATE_EPOCH=$(git -C "$root" log -1 --format=%ct 2>/dev/null || echo 0)
export SOURCE_DATE_EPOCH
dpkg-deb --root-owner-group -Zzstd -z9 --build "$tree" "$here/dist/troupe_${version}_$arch.deb" >/dev/null
rm -rf "$tree"
(cd "$here" && du -h --apparent-size dist/*.deb)
