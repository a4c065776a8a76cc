# What .ci/run and .ci/long share: sourced by both, at the root of the project.
set -uo pipefail
export NO_COLOR=1 DENO_NO_UPDATE_CHECK=1
deno() { npx -y deno@2.9.6 "$@"; }
passed=0 failed=0
logs=$(mktemp -d)
: >"$logs/failures"
trap 'rm -rf "$logs"' EXIT

step() { # step NAME COMMAND...: runs it, shows what it printed, counts it as one
  local name=$1 since=$SECONDS
  shift
  echo "== $name"
  if "$@" >"$logs/step" 2>&1; then
    passed=$((passed + 1))
    tail -n 3 "$logs/step"
  else
    failed=$((failed + 1))
    cat "$logs/step"
    { echo "FAILED: $name" && tail -n 40 "$logs/step"; } >>"$logs/failures"
  fi
  echo "== $name took $((SECONDS - since)) s"
}

tests() { # tests NAME COMMAND...: the same, and counts the tests that the runner says it ran
  local name=$1 ok bad since=$SECONDS
  shift
  echo "== $name"
  "$@" >"$logs/tests" 2>&1
  local code=$?
  tail -n 400 "$logs/tests"
  read -r ok bad < <(counts_of "$logs/tests")
  passed=$((passed + ok)) failed=$((failed + bad))
  if [ "$code" -ne 0 ] && [ "$bad" -eq 0 ] || [ "$ok" -eq 0 ]; then failed=$((failed + 1)); fi
  if [ "$code" -ne 0 ] || [ "$bad" -ne 0 ]; then
    { echo "FAILED: $name, exit code $code" && failures_of "$logs/tests"; } >>"$logs/failures"
  fi
  echo "== $name took $((SECONDS - since)) s"
}

begin_beside() { # begin_beside FUNCTION: runs its steps and tests beside what follows, until finish_beside
  mkdir "$logs/beside"
  (
    logs=$logs/beside passed=0 failed=0
    : >"$logs/failures"
    "$1"
    echo "$passed $failed" >"$logs/counts"
  ) >"$logs/beside/output" 2>&1 &
  beside=$!
}

finish_beside() { # waits for them, shows what they printed, and counts them
  local ok=0 bad=1
  wait "$beside"
  cat "$logs/beside/output"
  cat "$logs/beside/failures" >>"$logs/failures"
  [ -e "$logs/beside/counts" ] && read -r ok bad <"$logs/beside/counts"
  passed=$((passed + ok)) failed=$((failed + bad))
}

failures_of() { # what deno test, bun test or node --test says of each test that failed, and the end of what it printed
  {
    grep -aE -A 25 -- '^error: |✖ ' "$1"
    grep -aE -B 30 -- '^\(fail\)' "$1"
    echo "..." && tail -n 15 "$1"
  } | grep -avE -- '^\((skip|pass)\)|^✔|^﹣|\.\.\. (ok|ignored)' | tail -n 200
}

counts_of() { # the counts in the closing lines of deno test, bun test or node --test: passed, failed
  awk '
    /^(ok|FAILED) \| [0-9]+ passed/ { ok += $3; if (match($0, /[0-9]+ failed/)) bad += substr($0, RSTART) + 0 }
    /^ *[0-9]+ pass$/ { ok += $1 }
    /^ *[0-9]+ fail$/ { bad += $1 }
    /^(#|ℹ) pass [0-9]+$/ { ok += $3 }
    /^(#|ℹ) fail [0-9]+$/ { bad += $3 }
    END { print ok + 0, bad + 0 }
  ' "$1"
}

install_compilers() { # as root, what the tests of the C shim compile and run with
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    missing=()
    command -v gcc >/dev/null || missing+=(gcc)
    command -v aarch64-linux-gnu-gcc >/dev/null || missing+=(gcc-aarch64-linux-gnu)
    command -v qemu-aarch64 >/dev/null || missing+=(qemu-user)
    if [ ${#missing[@]} -gt 0 ]; then
      { apt-get update -qq && apt-get install -y -qq "${missing[@]}"; } >"$logs/apt" 2>&1 || tail -n 5 "$logs/apt"
    fi
  fi
}

install_nvrtc() { # CUDA's compiler, for the tests of kernels from source; found by VIRTUAL_ENV
  python3 -m venv "$logs/python" && "$logs/python/bin/pip" install -q nvidia-cuda-nvrtc nvidia-cuda-runtime \
    nvidia-cuda-cccl nvidia-nvjitlink >"$logs/nvrtc" 2>&1 || tail -n 5 "$logs/nvrtc"
  export VIRTUAL_ENV="$logs/python"
}

install_clang() { # as root, another compiler of CUDA C++, which needs the headers of an installed toolkit
  [ "$(id -u)" = 0 ] && ! command -v clang >/dev/null || return 0
  apt-get install -y -qq --no-install-recommends clang-19 >"$logs/clang" 2>&1 || tail -n 5 "$logs/clang"
  PATH="$PATH:/usr/lib/llvm-19/bin"
}

install_packages() { # @std for Bun and Node; Deno finds it by import_map.json
  npm install --no-save --no-package-lock --no-audit --no-fund --loglevel=error deno-std@1.4.0
}

every_case() { # of folders whose cases are quick: .ci/long has the others, and "deno task test" some cases of them
  # Not of tests/types: tsc has checked the same calls.
  local files # by name: with several folders, --ignore of deno test holds for the first alone
  mapfile -t files < <(find tests/{packaging,ffi,python} -name '*_test.ts' | sort)
  POOLPASS_LONG=1 deno test --allow-all --no-check --import-map import_map.json --lock deno.lock --frozen "${files[@]}"
}

bun_tests() {
  # But for .ci/long, without what asks most of an engine: single instructions, gangs and long programs of the compiler,
  # and what the sanitizer finds in kernels.
  local files=(./tests/) limit=1200000
  if [ "${POOLPASS_LONG:-}" != 1 ]; then
    limit=120000
    mapfile -t files < <(find ./tests -name '*_test.ts' ! -path './tests/sanitizer/*/*' ! -path './tests/compiler/*/*' \
      ! -path './tests/corpus/*' ! -path './tests/differential/*' | sort)
  fi
  npx -y bun@1.4.5 test --timeout "$limit" "${files[@]}"
}

node_tests() { # a process for each folder: one for each file takes twice as long
  # What asks nothing of a runtime but its engine, which is Deno's, runs here in .ci/long only: the compiler, and what
  # the sanitizer finds in kernels. So do the examples, which Bun's tests run as well.
  # Options are set inside, because npx may run on an older Node, which would read them too. What Node has compiled is
  # kept: without that, a process takes a second until it has loaded the library, and tests start hundreds.
  NODE_COMPILE_CACHE="$logs/compiled" npx -y -p node@26.10 bash -c '
    export NODE_OPTIONS=--import=./tests/support/resolve_hook.mjs NODE_NO_WARNINGS=1
    code=0 limit=120000
    [ "${POOLPASS_LONG:-}" = 1 ] && limit=1200000
    for tests in $(find tests -name "*_test.ts" | cut -d / -f 1,2 | sort -u); do
      [ -d "$tests" ] && tests="$tests/**/*_test.ts"
      if [ "${POOLPASS_LONG:-}" != 1 ]; then
        [[ $tests =~ ^tests/(compiler|corpus|differential|examples)/ ]] && continue
        tests=${tests/sanitizer\/\*\*/sanitizer}
      fi
      node --test --test-isolation=none --test-timeout="$limit" "$tests" || code=1
    done
    exit "$code"'
}

finish() { # shows every failure once more, for readers of the end of a long log, and prints the counts
  cat "$logs/failures"
  echo "$passed passed, $failed failed"
  [ "$failed" -eq 0 ]
}
