# What .ci/run and .ci/long share: sourced by both, at the root of the project.
set -uo pipefail
export NO_COLOR=1 DENO_NO_UPDATE_CHECK=1
deno() { # npx takes a second each time
  "${deno_program:=$(npx -y deno@2.9.6 eval 'console.log(Deno.execPath())')}" "$@"
}
passed=0 failed=0
logs=$(mktemp -d)
all_logs=$logs
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

begin_installing() { # what takes a minute and many steps do not need: runs beside them, until await_installed
  export VIRTUAL_ENV="$logs/python"
  { install_compilers && install_nvrtc; } &
  installing=$!
}

await_installed() { tail --pid="$installing" -f /dev/null; } # also in what runs beside, where wait does not know it

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

do_jobs() { # do_jobs JOB...: does each job, a command, that this function has not begun elsewhere
  local job
  mkdir -p "$all_logs/begun"
  for job; do
    mkdir "$all_logs/begun/${job//[ \/]/_}" 2>"$logs/not_begun" && $job
  done
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

install_nvrtc() { # CUDA's compiler, and what writes and reads files as the tests of files do; found by VIRTUAL_ENV
  # An index that does not answer would be asked again for seven seconds for each package.
  local pip=("$VIRTUAL_ENV/bin/pip" install -q --retries 1)
  python3 -m venv "$VIRTUAL_ENV" && "${pip[@]}" nvidia-cuda-nvrtc nvidia-cuda-runtime \
    nvidia-cuda-cccl nvidia-nvjitlink >"$logs/nvrtc" 2>&1 || tail -n 5 "$logs/nvrtc"
  "${pip[@]}" numpy ml_dtypes safetensors >"$logs/numpy" 2>&1 || tail -n 5 "$logs/numpy"
}

install_clang() { # as root, another compiler of CUDA C++, which needs the headers of an installed toolkit
  [ "$(id -u)" = 0 ] && ! command -v clang >/dev/null || return 0
  apt-get install -y -qq --no-install-recommends clang-19 >"$logs/clang" 2>&1 || tail -n 5 "$logs/clang"
  PATH="$PATH:/usr/lib/llvm-19/bin"
}

install_chromium() { # as root, the browser that shows the page of poolpass top
  [ "$(id -u)" = 0 ] && ! command -v chromium >/dev/null || return 0
  apt-get install -y -qq --no-install-recommends chromium >"$logs/chromium" 2>&1 || tail -n 5 "$logs/chromium"
}

install_packages() { # @std for Bun and Node; Deno finds it by import_map.json. It must be the files that deno.lock pins.
  npm install --no-save --no-package-lock --no-audit --no-fund --loglevel=error deno-std@1.4.0 &&
    grep -qF "$(grep -oE 'sha512-[^"]+' deno.lock)" node_modules/.package-lock.json ||
    { echo "deno-std is not what deno.lock pins" && return 1; }
}

check_types() { # of all files, and of the code on pages and in examples
  local blocks
  blocks=$(TMPDIR="$logs" deno run --allow-all tests/docs/checked_blocks.ts) || return 1
  mapfile -t blocks <<<"$blocks"
  deno check --import-map import_map.json --lock deno.lock --frozen . "${blocks[@]}"
}

test_more() { # test_more NAME...: what deno task test:more runs, but only these of tests/together/more
  deno test --v8-flags=--max-lazy,--no-incremental-marking --allow-all --no-check --import-map import_map.json \
    --lock deno.lock --frozen $(printf "tests/together/more/%s.ts " "$@")
}

every_case() { # the cases that deno task test and deno task test:more leave out, of folders where they are quick
  # Not building the site, which takes ten seconds: .ci/long does.
  local files
  mapfile -t files < <(find tests/packaging -name '*_test.ts' ! -name site_test.ts | sort)
  POOLPASS_LONG=only deno test --allow-all --no-check --import-map import_map.json --lock deno.lock --frozen \
    tests/together/ffi.ts "${files[@]}"
}

# What deno task test and deno task test:more run, and Bun and Node need not outside of .ci/long: it is TypeScript that
# works on numbers, strings and objects, or it runs above parts that other tests use on each runtime. Those are what can
# differ between runtimes: FFI, sockets, processes, descriptors, Workers, timers, finalization, streams, printing, the
# ends of processes, and the objects that users see. Node has Deno's engine, V8, and need not run engine_only either.
nothing_of_a_runtime=(
  # Texts, types and tables.
  tests/docs tests/packaging tests/ptx tests/python tests/types tests/{module_graph,plain_words,test_task}_test.ts
  tests/{driver_layers,environment_variables,public_api}_test.ts tests/cli/bind{,_ptx}_test.ts
  tests/ffi/sample_symbols_test.ts tests/support/{event_log,nearest_name,sha256}_test.ts
  # The compiler's parser and refusals, single instructions, gangs and long programs; results recorded on a GPU.
  tests/compiler/{errors,grammar,linking,malformed_ptx,refusals}_test.ts
  tests/compiler/{instructions,lockstep,simd,tensor_cores} tests/corpus tests/differential tests/kernels
  tests/compile/{compile_options,cooperating_blocks,sample_programs}_test.ts tests/cli/struct_layouts_test.ts
  tests/software/{fault_places,graphs,random}_test.ts tests/software/collectives/{reduction,refusals}_test.ts
  # The answers of the software device to each situation. Graphs, and kinds of memory: TypeScript above the driver's calls.
  # Captures, and memory that the runtime has allocated, run on each runtime.
  tests/conformance tests/memory/{managed,memory_kinds,memory_samples,pitched,pools_by_location}_test.ts
  tests/objects/graphs/{arguments,by_hand,conditional_graphs,cupy_counterparts,external_events,node_notes}_test.ts
  tests/objects/graphs/{node_parameters,random_arguments,random_graphs}_test.ts
  # What the sanitizer finds. Other tests of it have ends of processes, call sites, files, and boards that processes share.
  tests/sanitizer/{initialization,kernel_accesses,memory,race,synchronization,yardsticks}
  tests/sanitizer/random_{graphs,host_memory,order,processes}_test.ts tests/sanitizer/{processes,stream_order}_test.ts
  tests/sanitizer/{collectives,first_threads,offers,skipped_barriers,store,synchronization}_test.ts
  # The caching allocator, above a driver of the tests, and scarce memory. Its slabs are shared on each runtime.
  tests/memory/caching/caching_{allocator,allocator_properties,faults}_test.ts tests/memory/scarce_memory_test.ts
  # The contents of messages, and what budgets leave to others. Attacks on sockets and descriptors run on Bun as well.
  tests/sharing/protocol/{limits,messages,metadata}_test.ts tests/sharing/{claims,sharing_fuzz}_test.ts
  tests/sharing/hostile/{channel_budgets,control_characters,event_budgets,metadata_budgets}_test.ts
  tests/sharing/hostile/{store_budgets,stores,unread_answers}_test.ts tests/sharing/foreign
  tests/sharing/operator/prometheus_text_test.ts
  # Which frames of a channel wait for which, and how long. Producers and consumers in processes run on each runtime.
  tests/sharing/channel/{channel_frames,quarantine}_test.ts
  # What a store decides, and its standbys. That its clients die, reconnect and share memory runs on each runtime.
  tests/sharing/store/{create_once,digests,publication_sets,random_store,store_standby}_test.ts
  tests/sharing/store/{moved,offloaded}_entries_test.ts tests/sharing/hostile/operators_test.ts
  # Peers that break the rules: hostile/ has more of them, on Bun as well. What commands print about other processes, and
  # messages of mistakes: their words are the same in each engine.
  tests/sharing/sharing_abuse_test.ts tests/cli/{doctor,list,top}_test.ts tests/mistakes
  tests/cli/weights_test.ts
  # Which waits fail when a collective cannot complete. That ranks die, and are noticed, runs on Bun as well.
  tests/collectives/{dependent_streams,driver_differences,failed_enqueue,failed_waits,failed_work}_test.ts
  tests/collectives/{invalid_results,launch_throttle,operations,random_waits,repeated_calls}_test.ts
  # Programs of public calls: Bun runs those that share memory, and package:try other ones on each runtime.
  tests/examples/{bootstrap,collective_examples,fabric_pool,help,ipc_programs,notebook,pictures}_test.ts
  # Formats of files, weights above stores, and what notebooks show. Files are read and written on each runtime.
  tests/files/{npz,python_files,safetensors_header}_test.ts tests/weights tests/notebook
  tests/examples/{sharing_examples,weights_store}_test.ts
)
engine_only=(
  # The software device's compiler, and what above it asks for memory and for ranks.
  tests/compiler tests/collectives tests/examples tests/compile/compile_test.ts
  tests/memory/{allocation,cross_stream_use,elements,export_data,imported_mappings,out_of_memory,wrapped_memory}_test.ts
  tests/memory/virtual/address_range_test.ts
  tests/software/{compiled_modules,device_heap,device_print,distrust,endless_kernels,fault_messages,kernel_faults}_test.ts
  tests/software/{kernel_order,litmus,memory,module,pool,schedule,stream,unsupported_kernels,waiting_blocks}_test.ts
  tests/software/collectives/{collectives,division,messages}_test.ts
  tests/sanitizer/{early_results,leak,suppressions,variable_names}_test.ts
  # Compilers and their cache, what is linked, and how launches are described: TypeScript above calls of the driver, and
  # files and processes by the same modules of Node as in Bun. Messages of mistakes, in the words of the same engine.
  tests/compile/{command_compilers,compile_cache}_test.ts
  tests/objects/{benchmark,binary_image,instruction_support,kernel_attributes,launch_options,linking}_test.ts
  tests/objects/{module,module_options,shared_memory,struct}_test.ts
  # Ends of producers and consumers, and peers that attack. Ends of other processes run here, too.
  tests/sharing/channel/channel_faults_test.ts tests/sharing/hostile
  # What commands print. Those that own a terminal, serve HTTP or start processes run here, too.
  tests/cli/{command_line,devices}_test.ts
)

test_files() { # test_files EXCLUDED...: all files of tests, but outside of .ci/long for those that these are or contain
  local files path
  files=$(find tests -name '*_test.ts' | sort)
  [ "${all_files:-}" = 1 ] && set --
  for path in "$@"; do
    grep -qE "^$path(/|\$)" <<<"$files" || { echo "There is no test at $path" >&2 && return 1; }
    files=$(grep -vE "^$path(/|\$)" <<<"$files")
  done
  echo "$files"
}

child_bundles() { # the folder of the scripts that tests start, which load the library twice as fast from bundles
  [ "${all_files:-}" = 1 ] ||
    deno run --allow-all --import-map import_map.json --lock deno.lock --frozen tests/support/child_bundles.ts
}

bun_tests() {
  local files list limit=120000
  [ "${all_files:-}" = 1 ] && limit=600000
  list=$(test_files "${nothing_of_a_runtime[@]}") || return 1
  mapfile -t files < <(sed 's/^/.\//' <<<"$list")
  : "${bundles:=$(child_bundles)}"
  CHILD_BUNDLES="$bundles" npx -y bun@1.4.5 test ${eager_workers:+--preload=./tests/support/eager_workers.ts} \
    --timeout "$limit" "${files[@]}"
}

node_folders() { # the folders of which Node runs tests
  test_files "${nothing_of_a_runtime[@]}" "${engine_only[@]}" | cut -d / -f 1,2 | sort -u
}

node_tests() { # node_tests FOLDER...: a process for each folder, because one for each file takes twice as long
  # What Node has compiled is kept: without that, a process takes a second until it has loaded the library, and tests
  # start hundreds.
  local list files folder code=0 limit=120000
  [ "${all_files:-}" = 1 ] && limit=600000
  : "${node_program:=$(npx -y -p node@26.10 node -p process.execPath)}"
  list=$(test_files "${nothing_of_a_runtime[@]}" "${engine_only[@]}") || return 1
  : "${bundles:=$(child_bundles)}"
  for folder; do
    mapfile -t files < <(grep -E "^$folder(/|\$)" <<<"$list")
    CHILD_BUNDLES="$bundles" NODE_COMPILE_CACHE="$all_logs/compiled" NODE_NO_WARNINGS=1 \
      PATH="$(dirname "$node_program"):$PATH" NODE_OPTIONS=--import=./tests/support/resolve_hook.mjs \
      "$node_program" ${eager_workers:+--import=./tests/support/eager_workers.ts} \
      --test --test-isolation=none --test-timeout="$limit" "${files[@]}" || code=1
  done
  return "$code"
}

finish() { # shows every failure once more, for readers of the end of a long log, and prints the counts
  cat "$logs/failures"
  echo "$passed passed, $failed failed"
  [ "$failed" -eq 0 ]
}
