#!/bin/bash
# run_doxygen.sh DOXYFILE FOLDER: makes the guide and the reference without a warning, into a folder of the test: `docs` is the
# user's. Skipped where there is no Doxygen.
set -euo pipefail
command -v doxygen >/dev/null || {
  echo "skipped: doxygen is not installed (./setup.sh test installs it)"
  exit 77
}
mkdir -p "$2"
{ cat "$1" && echo "OUTPUT_DIRECTORY = $2"; } | doxygen -
