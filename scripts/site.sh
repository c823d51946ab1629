#!/usr/bin/env bash
# Builds the documents as a searchable site, target/site/book, and checks its links. The pages are copied with the tree's
# own folders, so that their relative links hold on the site too.
# Usage: scripts/site.sh path/to/mdbook
set -euo pipefail
mdbook=$1
out=target/site
rm -rf "$out"
mkdir -p "$out/src"
for page in $(sed -n 's/.*](\(.*\.md\))$/\1/p' site/SUMMARY.md); do
  # mdBook writes README.md as index.html, and leaves links to it as they are.
  install -D -m 644 /dev/null "$out/src/$page"
  sed 's#\(](\|/\)README\.md)#\1index.md)#g' "$page" > "$out/src/$page"
done
for page in *.md docs/*.md; do
  [ -e "$out/src/$page" ] || { echo "$page is not in site/SUMMARY.md" >&2; exit 1; }
done
cp -r docs/images "$out/src/docs/"
cp site/SUMMARY.md "$out/src/"
cp site/book.toml site/site.css "$out/"
"$mdbook" build "$out"
python3 scripts/site_links.py "$out/book"
echo "open $out/book/index.html"
