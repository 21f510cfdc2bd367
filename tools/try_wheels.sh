#!/usr/bin/env bash
# Install the built wheels into empty environments, together and one by one, and import every door.
# Usage: tools/try_wheels.sh DIST
set -euo pipefail
dist=$(cd "$1" && pwd)
root=$(cd "$(dirname "$0")/.." && pwd)
uv=$("$root/tools/find_uv.sh")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"   # nothing of the checkout may be importable

declare -A doors=(
    [tilefoundry_ir]="tilefoundry tilefoundry.ir.layout tilefoundry.ir.types tilefoundry.ir.types.shard tilefoundry.dsl tilefoundry.inspection tilefoundry.target tilefoundry.verbs tilefoundry.cli"
    [tilefoundry_runtime]="tilefoundry.runtime tilefoundry.runtime.linking tilefoundry.runtime.resource"
    [tilefoundry_cuda]="tilefoundry.codegen tilefoundry.codegen.cpu"
    [strideweave_carriers]="strideweave strideweave.carriers"
)
# torch is unpinned in the wheels; the constraint keeps these environments on the locked release's cached files.
constraints=constraints.txt
(cd "$root" && "$uv" export --locked --quiet --no-hashes --no-emit-workspace --no-dev | grep -E '^(torch|triton|nvidia-[a-z0-9-]+)==' || true) >"$constraints"

# Wheels built again bear the same names and versions: what a cache holds of them is not what is tried here.
refresh=(); for name in "${!doors[@]}"; do refresh+=(--refresh-package "${name//_/-}"); done

try() { # name, wheels to install, doors to import
    local env="env-$1"; shift
    local -a wheels=(); while [ "$1" != -- ]; do wheels+=("$1"); shift; done; shift
    "$uv" venv --quiet "$env"
    "$uv" pip install --quiet --python "$env" "${refresh[@]}" --find-links "$dist" --constraint "$constraints" "${wheels[@]}"
    "$uv" pip check --python "$env"
    for door in "$@"; do "$env/bin/python" -c "import $door; assert $door.__doc__, '$door has no docstring'"; done
    echo "$env: ${wheels[*]##*/} installed, doors import: $*"
}

for name in "${!doors[@]}"; do
    # shellcheck disable=SC2086  # the list is meant to split
    try "$name" "$dist/$name"-*.whl -- ${doors[$name]}
done
# shellcheck disable=SC2046,SC2086
try all "$dist"/*.whl -- $(printf '%s ' "${doors[@]}")
forbidden=$(find env-tilefoundry_runtime -path '*/tilefoundry/codegen*' -o -path '*/include/cute/*' -o -path '*/include/cutlass/*' | head -5)
[ -z "$forbidden" ] || { echo "the runtime's environment holds compiler code or headers: $forbidden" >&2; exit 1; }
