#!/usr/bin/env bash
# `make gpu`: on a machine with a GPU, install this checkout, run the tests that need a GPU, then
# the benchmarks. No network is needed. Every step has a time limit, so that a kernel that hangs
# costs its limit and no more, and the steps after it still run.
#
#   OUT=/tmp/out            where logs and results go
#   STEPS="tests bench"     which of: tests samples compute bench variants conv  (install always)
#   PYTHON=python3          the interpreter; it must hold the dependencies and PyTorch
#   LIMIT=120               seconds for each test file
#
# A missing Python package can be brought as a wheel in .whl/: tests/family needs filecheck.
set -uo pipefail
cd "$(dirname "$0")/.."

OUT=${OUT:-/tmp/out}
PYTHON=${PYTHON:-python3}
STEPS=${STEPS-"tests samples bench variants conv"}
LIMIT=${LIMIT:-120}
mkdir -p "$OUT"
export PYTHONUNBUFFERED=1 PIP_NO_INPUT=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
export PYTHONFAULTHANDLER=1 TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=0

declare -a summary=()
failed=0

# step NAME SECONDS COMMAND...: run it with a limit; its output goes to $OUT/NAME.log.
step() {
    local name=$1 limit=$2 start=$SECONDS status=0 verdict
    shift 2
    printf '=== %s: %s\n' "$name" "$*"
    # KILL follows: a process that waits for the GPU does not always end on TERM.
    timeout --kill-after="${GRACE:-10}" "$limit" "$@" >"$OUT/$name.log" 2>&1 || status=$?
    case $status in
        0) verdict=ok ;;
        124 | 137) verdict="TIMED OUT after $limit s" ;;
        *) verdict="FAILED ($status)" ;;
    esac
    [ $status = 0 ] || { failed=1; tail -n 40 "$OUT/$name.log"; }
    summary+=("$(printf '%-24s %4d s  %s  %s' "$name" $((SECONDS - start)) "$verdict" \
        "$(grep -aE '^(GPU tests:|[0-9]+ (passed|failed)|=+ .*(passed|failed|error).* =+$)' \
            "$OUT/$name.log" | tail -n 2 | tr -d '=' | tr '\n' ' ')")")
    return $status
}

has() { [[ " $STEPS " == *" $1 "* ]]; }

install() {
    if compgen -G '.whl/*.whl' >/dev/null; then
        "$PYTHON" -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade \
            --target /tmp/site .whl/*.whl || return
    fi
    "$PYTHON" -m pip install -q --no-index --no-deps --no-build-isolation -e .
}

export PYTHONPATH=/tmp/site${PYTHONPATH:+:$PYTHONPATH}
export -f install
export PYTHON
step install 120 bash -c install || { printf '%s\n' "${summary[@]}"; exit 1; }

step environment 60 "$PYTHON" - <<'PY'
import sys
from importlib.metadata import PackageNotFoundError, version

print("python", sys.version)
for name in ("torch", "cupy-cuda13x", "llvmlite", "numba", "cuda-bindings", "cuda-core",
             "nvidia-nvjitlink", "numpy", "ml_dtypes", "pytest", "tiledsl"):
    try:
        print(name, version(name))
    except PackageNotFoundError:
        print(name, "MISSING")
import torch
print(torch.cuda.get_device_name(), torch.cuda.get_device_capability())
PY
cat "$OUT/environment.log"

if has tests; then
    for file in tests/gpu/test_*.py tests/family; do
        name=$(basename "$file" .py)
        # Warnings of ours are errors; what PyTorch says about its own dependencies is not.
        step "$name" "$LIMIT" "$PYTHON" -m pytest -q --maxfail=20 --require-gpu -m gpu \
            -W default::FutureWarning -W default::DeprecationWarning \
            -p no:cacheprovider --timeout "$LIMIT" "$file"
    done
fi

if has samples; then
    for script in gemm gemm_flat gemm_cluster gemm_pingpong conv_im2col; do
        step "sample_$script" 60 "$PYTHON" "samples/$script.py" --device gpu &&
            sed -n '2,$p' "$OUT/sample_$script.log"
    done
    step sample_quickstart 60 "$PYTHON" samples/quickstart.py
fi

# Memory and races, on small shapes: the tools slow a kernel down a thousandfold.
if has compute && command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck synccheck; do
        step "sanitizer_$tool" 120 compute-sanitizer --tool "$tool" --error-exitcode 9 \
            "$PYTHON" samples/gemm.py --device gpu --m 200 --n 264 --k 200
    done
fi

if has bench; then
    step bench_gemm 240 "$PYTHON" benchmarks/gemm.py --out "$OUT" && cat "$OUT/bench_gemm.log"
fi

if has variants; then
    step bench_variants 400 "$PYTHON" benchmarks/gemm_variants.py --out "$OUT" &&
        cat "$OUT/bench_variants.log"
fi

if has conv; then
    step bench_conv 300 "$PYTHON" benchmarks/conv.py --out "$OUT" && cat "$OUT/bench_conv.log"
fi

printf '\n=== summary (logs in %s)\n' "$OUT"
printf '%s\n' "${summary[@]}"
exit $failed
