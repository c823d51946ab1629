#!/bin/sh
# Makes the Debian package of a release binary: packaging/build-deb.sh BINARY FOLDER
# The same binary gives the same bytes: times are the changelog's. DEBFULLNAME and DEBEMAIL say who
# the maintainer is.
set -eu
cd "$(dirname "$0")/.."
binary=$1
out=$2
from=packaging
umask 022

work=$out/work
root=$work/debian/destage
rm -rf "$work"
mkdir -p "$work/debian" "$root/DEBIAN"
changelog=$from/debian/changelog
SOURCE_DATE_EPOCH=$(dpkg-parsechangelog -l "$changelog" -S Timestamp)
export SOURCE_DATE_EPOCH
version=$(dpkg-parsechangelog -l "$changelog" -S Version)
maintainer="${DEBFULLNAME:-destage authors} <${DEBEMAIL:-root@localhost}>"
sed "s/@MAINTAINER@/$maintainer/" $from/debian/control > "$work/debian/control"
cp "$changelog" "$work/debian/changelog"

# The program; without its debugging symbols it is a third of the size.
install -D -m 755 "$binary" "$root/usr/bin/destage"
strip --strip-unneeded --remove-section=.comment --remove-section=.note "$root/usr/bin/destage"

# Pages and completions are what this program says of itself.
man=$root/usr/share/man/man1
mkdir -p "$man"
"$binary" man "$man"
gzip -9n "$man"/*.1
completions() { # shell file
    install -d "$(dirname "$root/$2")"
    "$binary" completions "$1" > "$root/$2"
    chmod 644 "$root/$2"
}
completions bash usr/share/bash-completion/completions/destage
completions zsh usr/share/zsh/vendor-completions/_destage
completions fish usr/share/fish/vendor_completions.d/destage.fish

install -D -m 644 "$from/destage@.service" "$root/usr/lib/systemd/system/destage@.service"
install -d "$root/etc/destage"
install -d -m 700 "$root/var/lib/destage"
install -D -m 644 $from/grafana-dashboard.json "$root/usr/share/destage/grafana-dashboard.json"

doc=$root/usr/share/doc/destage
install -d "$doc/examples"
install -m 644 $from/debian/copyright "$doc/copyright"
for page in docs/*.md; do install -m 644 "$page" "$doc/"; done
install -d "$doc/images"
install -m 644 docs/images/* "$doc/images/"
for example in "$from"/examples/*; do cp -p "$example" "$doc/examples/"; done
chmod 644 "$doc"/examples/* && chmod 755 "$doc/examples/alarm"
gzip -9n < CHANGELOG.md > "$doc/changelog.gz"
gzip -9n < "$changelog" > "$doc/changelog.Debian.gz"
# What is linked in, with its licence.
cargo tree --locked -p destage -e normal --prefix none -f '{p} {l}' |
    grep -v -e '^destage' -e '^$' | sed 's/ (proc-macro)//; s/ (\*)//' | LC_ALL=C sort -u > "$doc/crates.txt"
install -D -m 644 $from/debian/destage.lintian-overrides \
    "$root/usr/share/lintian/overrides/destage"

for script in postinst prerm postrm; do
    install -m 755 "$from/debian/$script" "$root/DEBIAN/$script"
done
(cd "$root" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum > DEBIAN/md5sums)
(
    cd "$work"
    dpkg-shlibdeps debian/destage/usr/bin/destage
    dpkg-gencontrol -pdestage -Pdebian/destage
)
find "$root" -newermt "@$SOURCE_DATE_EPOCH" -print0 |
    xargs -0r touch --no-dereference --date="@$SOURCE_DATE_EPOCH"
package=$out/destage_${version}_$(dpkg --print-architecture).deb
rm -f "$out"/destage_*.deb
dpkg-deb --root-owner-group --build "$root" "$package" > /dev/null
echo "$package"
