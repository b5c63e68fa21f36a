"""Checks a site that was built: links lead somewhere, and nothing comes from elsewhere.

tools/check_site.py build/site
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Tags whose address a browser fetches to show a page.
_FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src"}


class _Page(HTMLParser):
    """Collects the links, the anchors and what is fetched, of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.fetched: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take what the tag says."""
        given = {name: value for name, value in attrs if value is not None}
        if "id" in given:
            self.anchors.add(given["id"])
        if tag == "a" and "href" in given:
            self.links.add(given["href"])
        address = given.get(_FETCHED.get(tag, ""))
        if tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload"):
            address = given.get("href")
        if address is not None:
            self.fetched.add(address)


def _is_elsewhere(address: str) -> bool:
    parts = urlsplit(address)
    return bool(parts.netloc) or parts.scheme in ("http", "https")


def _findings(site: Path) -> list[str]:
    """Return what is wrong, a line each."""
    files = sorted(site.rglob("*.html"))
    pages = {path: _Page(path.read_text()) for path in files}
    findings = []
    for path, page in pages.items():
        if path.name == "404.html":
            continue  # its addresses are a server's
        name = path.relative_to(site)
        for address in sorted(filter(_is_elsewhere, page.fetched)):
            findings.append(f"{name}: fetches {address}")
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve()
            target = path if not parts.path else target
            if not target.exists():
                findings.append(f"{name}: {link} leads nowhere")
            elif parts.fragment and target in pages:
                anchor = unquote(parts.fragment)
                if anchor not in pages[target].anchors | {"__top"}:
                    findings.append(f"{name}: {link} has no such place")
    return findings


def main() -> int:
    """Print what is wrong with the site and return whether anything is."""
    site = Path(sys.argv[1]).resolve()
    if not (site / "index.html").is_file():
        print(f"{site} is no site", file=sys.stderr)
        return 2
    findings = _findings(site)
    print("\n".join(findings), end="\n" if findings else "")
    return 1 if findings else 0


if __name__ == "__main__":
    raise SystemExit(main())
