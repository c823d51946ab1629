#!/usr/bin/env bash
# A fresh virtual environment: python-venv.sh DIR PACKAGE... Installs python3-venv where it lacks.
set -euo pipefail
directory=$1
shift
python=${PYTHON:-python3}
command -v "$python" >/dev/null || {
  echo "python3 (3.10 or later) with venv is needed: apt-get install python3-venv" >&2
  exit 1
}
rm -rf "$directory"
"$python" -m venv "$directory" 2>/dev/null || {
  rm -rf "$directory"
  if [ "$(id -u)" != 0 ]; then
    echo "$python lacks venv: apt-get install python3-venv" >&2
    exit 1
  fi
  apt-get update && apt-get install -y --no-install-recommends python3-venv
  "$python" -m venv "$directory"
}
"$directory/bin/pip" install --quiet --disable-pip-version-check "$@"
