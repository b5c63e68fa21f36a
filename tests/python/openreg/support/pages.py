"""Errors that name a section of a document, and the section that shows them."""

import re
from pathlib import Path

_PAGE = Path(__file__).parents[4] / "docs" / "troubleshooting.md"


def assert_names_its_section(message: str, section: str) -> None:
    """The message leads to a section of the page, which shows the message."""
    page = _PAGE.read_text()
    assert f"\n## {section}\n" in page
    shown = re.findall(rf'^\w+: (.* under "{re.escape(section)}"\.)$', page, re.M)
    assert any(message.endswith(line) for line in shown), message
