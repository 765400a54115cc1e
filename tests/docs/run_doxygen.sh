#!/bin/bash
# run_doxygen.sh DOXYFILE FOLDER: builds the guide and the reference without a warning in a folder
# of the test, since `docs` belongs to the user. Skipped without Doxygen.
set -euo pipefail
command -v doxygen >/dev/null || {
  echo "skipped: doxygen is not installed (./setup.sh test installs it)"
  exit 77
}
mkdir -p "$2"
{ cat "$1" && echo "OUTPUT_DIRECTORY = $2"; } | doxygen -
