#!/usr/bin/env python3
"""Checks that every local link of a built site leads to a file and an anchor: site_links.py DIR."""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag


class Page(HTMLParser):
    """The links and anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collects what a tag links to, and its name."""
        named = dict(attrs)
        self.anchors.update(filter(None, (named.get("id"), named.get("name"))))
        link = named.get("href" if tag in ("a", "link") else "src")
        if link and ":" not in link and not link.startswith("//"):
            self.links.append(link)


def main() -> int:
    """Prints the links that lead nowhere; the number of links otherwise."""
    top = Path(sys.argv[1]).resolve()
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in top.rglob("*.html")}
    broken, checked = [], 0
    for path, page in pages.items():
        # These list or redirect: their links are from the top.
        if path.name in ("404.html", "print.html", "toc.html"):
            continue
        for link in page.links:
            checked += 1
            target, anchor = urldefrag(unquote(link))
            leads = (path.parent / target).resolve() if target else path
            if leads.is_dir():
                leads /= "index.html"
            there = leads.is_file()
            if there and anchor and leads in pages:
                there = anchor in pages[leads].anchors
            if not there:
                broken.append(f"{path.relative_to(top)}: {link}")
    print("\n".join(broken) or f"{checked} links of {len(pages)} pages lead somewhere")
    return bool(broken) or checked < 100


if __name__ == "__main__":
    sys.exit(main())
