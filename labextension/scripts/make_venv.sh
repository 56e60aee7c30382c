#!/bin/sh
# Makes a virtual environment. Usage: make_venv.sh PYTHON FOLDER
# On Debian `python3` comes without `venv`: as root that package is installed, else virtualenv is tried.
set -eu
python=$1
folder=$2

new_enough() {
  "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

if ! new_enough "$python"; then
  for other in python3.13 python3.12 python3.11 python3.14; do
    if new_enough "$other"; then
      python=$other
      break
    fi
  done
fi
if ! new_enough "$python"; then
  echo "trt-lab needs Python 3.11 or newer, and $python is not. Install one, or name it: make PYTHON=/path/to/python3.12" >&2
  exit 1
fi

if "$folder/bin/python" -m pip --version >/dev/null 2>&1; then
  exit 0
fi
if ! "$python" -c 'import ensurepip' 2>/dev/null; then
  version=$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing Debian's $version-venv…"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$version-venv" >/dev/null
  elif "$python" -m virtualenv --version >/dev/null 2>&1; then
    exec "$python" -m virtualenv --quiet "$folder"
  else
    echo "Python's venv module is missing. Install it and run make again: sudo apt install $version-venv" >&2
    exit 1
  fi
fi
exec "$python" -m venv "$folder"
