#!/bin/sh
# Install uv into .tools/uv where the machine has none.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
uv=$("$root/tools/find_uv.sh")
[ -x "$uv" ] && exit 0
echo "installing uv into .tools/uv"
if python3 -m venv "$root/.tools/uv" 2>/dev/null; then
    "$root/.tools/uv/bin/python" -m pip install --quiet "uv>=0.8"
elif python3 -m pip --version >/dev/null 2>&1; then
    rm -rf "$root/.tools/uv"
    python3 -m pip install --quiet --target "$root/.tools/uv" "uv>=0.8"
else
    echo "python3 has neither venv nor pip: install one of them (Debian: apt-get install python3-venv) or uv itself" >&2
    exit 1
fi
