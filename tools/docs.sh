#!/usr/bin/env bash
# Builds the documentation into build/site, with the tools of requirements-docs.txt.
# A link that leads nowhere, a page that is in no menu, and anything that a browser
# would fetch from elsewhere, are errors.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/common.sh

stage "docs: install" tools/extra_venv.sh .venv-docs requirements-docs.txt
# It warns of the end of mkdocs-material in 2027; the site needs no more than there is.
export NO_MKDOCS_2_WARNING=1
stage "docs: build" .venv-docs/bin/python -m mkdocs build --quiet --strict
stage "docs: check" python tools/check_site.py build/site
echo "The site is build/site/index.html. A browser opens it as a file, search included."
