#!/usr/bin/env bash
# The CPU device beside NumPy; part of `./dev bench`. Without NumPy there is nothing to compare with.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python3 -c 'import numpy' 2>/dev/null || { echo 'cpu_device.sh: python3 has no numpy; nothing to compare with' >&2; exit 0; }
exec python3 bench/cpu_device.py --epifuse "${1:-build}/tools/epifuse" --output build/results/cpu-device.json
