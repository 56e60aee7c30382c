#!/bin/sh
# Brings a Chromium for the browser tests where there is none. Usage: get_chromium.sh PYTHON
# As root on Debian its package, with the fonts; else the one of playwright, in the user's cache folder.
set -eu
python=$1

runs() {
  for name in chromium chromium-browser google-chrome; do
    if command -v "$name" >/dev/null && "$name" --version >/dev/null 2>&1; then
      return 0
    fi
  done
  return 1
}

if runs; then
  exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "Installing Debian's chromium…"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null || true
fi
if ! runs; then
  echo "Installing playwright's chromium…"
  "$python" -m playwright install chromium
fi
