#!/bin/sh
# Succeeds when a Node with npm is on PATH that is new enough for the build (20.19, or 22.12 and newer).
command -v npm >/dev/null 2>&1 && node -e '
const [major, minor] = process.versions.node.split(".").map(Number);
process.exit((major === 20 && minor >= 19) || (major === 22 && minor >= 12) || major > 22 ? 0 : 1);
' 2>/dev/null
