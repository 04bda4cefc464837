#!/bin/sh
# Runs the tests beside this script on a machine with an NVIDIA driver, then prints
# `ferroseq info`. Needs a POSIX shell and awk. Arguments go to every test executable:
#   ./run-tests.sh                  all tests
#   ./run-tests.sh linear_scan      those with that in their name
# Without a GPU the tests that need one fail; FERROSEQ_REQUIRE_CUDA=0 skips them.
# Exit code: 0 if tests ran and none failed, else 1.
set -u
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd) || exit 1
FERROSEQ_REQUIRE_CUDA=${FERROSEQ_REQUIRE_CUDA-1}
FERROSEQ_BIN=$here/ferroseq
FERROSEQ_PTX_DIR=$here/ptx
export FERROSEQ_REQUIRE_CUDA FERROSEQ_BIN FERROSEQ_PTX_DIR
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
passed=0 failed=0 skipped=0 broken=
for test in "$here"/tests/*; do
    [ -f "$test" ] || continue
    echo "==> ${test##*/}"
    # The pipe would hide the exit code, so it goes by way of the log.
    { "$test" "$@" 2>&1; printf '\nexit code %s\n' $?; } | tee "$log" | sed '$d'
    code=$(awk 'END { print $3 }' "$log")
    # libtest's closing line: `test result: ok. 3 passed; 0 failed; 1 ignored; …`
    # A test that needs what is not there writes a line with `skipped: ` and why.
    counts=$(awk '/skipped: / { s++ }
        /^test result: / { for (i = 2; i <= NF; i++) {
            if ($i ~ /^passed/) p += $(i - 1)
            if ($i ~ /^failed/) f += $(i - 1)
            if ($i ~ /^ignored/) s += $(i - 1)
        } seen = 1 } END { if (seen) print p + 0, f + 0, s + 0 }' "$log")
    case $counts:$code in
    :*) # It died.
        counts="0 1 0"
        broken="$broken ${test##*/} (no result, exit code $code)"
        ;;
    *' 0 '*:0 | *' '[1-9]*' '*:*) ;;
    *) # It died after the last test.
        counts=$(echo "$counts" | awk '{ print $1, $2 + 1, $3 }')
        broken="$broken ${test##*/} (exit code $code)"
        ;;
    esac
    read -r p f s <<COUNTS
$counts
COUNTS
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done
echo
[ -z "$broken" ] || echo "broken:$broken"
echo "$passed passed, $failed failed, $skipped skipped"
echo
"$FERROSEQ_BIN" info || failed=$((failed + 1))
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
