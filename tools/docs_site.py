"""A hook of mkdocs: pages that stand outside of docs/, and sources that pages link to.

The documents are written to be read in the checkout, where a link leads to a file. Here
the documents of the root become pages, every file that a page links to becomes a page
with its text, and the links are changed to match. Nothing is copied into docs/.
"""

from __future__ import annotations

import posixpath
import re
import subprocess
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]

# Documents of the root, and what they are in the site.
_PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
_LINK = re.compile(r"(?<=\]\()([^)#\s]+)(#[^)\s]*)?(?=\))")
_CELL = re.compile(r"<td\b.*?</td>", re.DOTALL)
# A test behind its file, or a name that takes a quarter of the page.
_LONG_NAME = re.compile(r"<code>(?:::\w+|\w{40,})</code>")
_LANGUAGES = {
    ".c": "c",
    ".cpp": "cpp",
    ".h": "cpp",
    ".pyi": "python",
    ".py": "python",
    ".sh": "sh",
    ".toml": "toml",
    ".yml": "yaml",
}


def _is_local(link: str) -> bool:
    return "://" not in link and not link.startswith("mailto:")


def _target(document: str, link: str) -> str:
    """Return the path in the checkout that a link of ``document`` leads to."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(document), link))


def _page_of(path: str) -> str | None:
    """Return what a document or a picture is in the site, or None for other files."""
    if path in _PAGES:
        return _PAGES[path]
    if path.startswith("docs/") and path.endswith((".md", ".svg")):
        return path.removeprefix("docs/")
    return None


def _source_page(path: str) -> str:
    """Return the page that shows a file, or lists a folder."""
    name = f"{path}/index" if (ROOT / path).is_dir() else path
    return f"source/{name}.md".replace("/.", "/dot-")


def _tracked(folder: str) -> list[str]:
    """Return the files below a folder that belong to the project."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [path for path in listed.stdout.splitlines() if (ROOT / path).is_file()]


def _linked_files() -> set[str]:
    """Return what the documents link to and what is no page: files and folders."""
    documents = [*_PAGES, *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))]
    found = set()
    for document in documents:
        for link, _anchor in _LINK.findall((ROOT / document).read_text()):
            path = _target(document, link)
            if _is_local(link) and _page_of(path) is None and (ROOT / path).exists():
                found.add(path)
    for folder in [path for path in found if (ROOT / path).is_dir()]:
        found.update(path for path in _tracked(folder) if _is_text(path))
    return found


def _is_text(path: str) -> bool:
    """Return whether a file can be shown."""
    try:
        (ROOT / path).read_text()
    except UnicodeDecodeError:
        return False
    return True


def _shown(path: str) -> str:
    """Return the text of the page that shows a file or lists a folder."""
    if (ROOT / path).is_dir():
        here = posixpath.dirname(_source_page(path))
        rows = [
            f"- [`{file}`]({posixpath.relpath(_source_page(file), here)})"
            for file in _tracked(path)
            if _is_text(file)
        ]
        return f"# {path}/\n\n" + "\n".join(rows) + "\n"
    language = _LANGUAGES.get(Path(path).suffix, "text")
    text = (ROOT / path).read_text()
    longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    head = "---\nsearch:\n  exclude: true\n---\n"  # the documents are what is searched
    return f"{head}# {path}\n\n{fence} {{.{language} linenums=1}}\n{text}\n{fence}\n"


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Add the pages of the root, and those of the files that pages link to."""
    for document, page in _PAGES.items():
        text = (ROOT / document).read_text()
        files.append(File.generated(config, page, content=text))
    for path in sorted(_linked_files()):
        files.append(
            File.generated(
                config,
                _source_page(path),
                content=_shown(path),
                inclusion=InclusionLevel.NOT_IN_NAV,
            )
        )
    return files


def on_page_markdown(
    markdown: str, page: Page, config: MkDocsConfig, files: Files
) -> str:
    """Let the links of a document lead to pages instead of files."""
    here = page.file.src_uri
    if here.startswith("source/"):
        return markdown
    documents = {page: document for document, page in _PAGES.items()}
    document = documents.get(here, f"docs/{here}")

    def changed(match: re.Match[str]) -> str:
        link, anchor = match[1], match[2] or ""
        path = _target(document, link)
        if not _is_local(link) or not (ROOT / path).exists():
            return match[0]
        target = _page_of(path) or _source_page(path)
        return posixpath.relpath(target, posixpath.dirname(here) or ".") + anchor

    return _LINK.sub(changed, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Let the longest names in tables, those of tests, break between their words.

    The stylesheet keeps all other names in a table whole.
    """
    return _CELL.sub(lambda cell: _LONG_NAME.sub(_with_breaks, cell[0]), html)


def _with_breaks(code: re.Match[str]) -> str:
    return "<wbr>" + re.sub(r"(?<=[a-z0-9]_)(?=[a-z0-9])", "<wbr>", code[0])
