#!/bin/sh
# Print the uv to use: the one on PATH, else the one that bootstrap_uv.sh installs.
root=$(cd "$(dirname "$0")/.." && pwd)
command -v uv 2>/dev/null || echo "$root/.tools/uv/bin/uv"
