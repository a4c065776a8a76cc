/* The functions of CUDA that take a handle of 64 bytes by value: these stand for them, and say what came. */
#include <string.h>
#include "shim_functions.h"

typedef struct { char reserved[64]; } handle_by_value;

static handle_by_value came;
static void *out_came;
static unsigned flags_came;
static int calls;

/* Spoils its own copy, as a callee may: what the caller has must stay as it is. No compiler may see that it is not read. */
__attribute__((noipa)) static void take(handle_by_value *handle) {
  came = *handle;
  memset(handle, 0xee, sizeof *handle);
  calls++;
}

static int open_memory(void **out, handle_by_value handle, unsigned flags) {
  out_came = out, flags_came = flags;
  take(&handle);
  *out = (void *)0x123456789abcdef0;
  return 999;
}

static int open_event(void **out, handle_by_value handle) {
  out_came = out;
  take(&handle);
  *out = (void *)0x0fedcba987654321;
  return -7;
}

static void check_handle(unsigned char seed) {
  unsigned char handle[64], before[64];
  /* A view of bytes may begin anywhere. */
  unsigned char room[64 + 7];
  void *out = NULL;
  for (int i = 0; i < 64; i++) handle[i] = before[i] = (unsigned char)(seed + 7 * i);
  for (int shift = 0; shift < 8; shift++) {
    memcpy(room + shift, handle, 64);
    CHECK(poolpass_ipc_open_mem_handle((uint64_t)(uintptr_t)open_memory, &out, room + shift, 0xfedcba98u), 999);
    CHECK(memcmp(&came, before, 64), 0);
    CHECK(memcmp(room + shift, before, 64), 0);
    CHECK(out_came == &out && flags_came == 0xfedcba98u, 1);
    CHECK((uintptr_t)out, 0x123456789abcdef0);
    CHECK(poolpass_ipc_open_event_handle((uint64_t)(uintptr_t)open_event, &out, room + shift), -7);
    CHECK(memcmp(&came, before, 64), 0);
    CHECK(memcmp(room + shift, before, 64), 0);
    CHECK(out_came == &out, 1);
    CHECK((uintptr_t)out, 0x0fedcba987654321);
  }
}

void check_by_value(void) {
  CHECK(sizeof(handle_by_value), 64);
  check_handle(0);
  check_handle(129);
  CHECK(calls, 2 * 2 * 8);
}
