/* Stand-ins for the functions of CUDA that take a 64-byte handle by value. They record their arguments. */
#include <string.h>
#include "shim_functions.h"

typedef struct { char reserved[64]; } handle_by_value;

static handle_by_value received;
static void *received_out;
static unsigned received_flags;
static int calls;

/*
 * Overwrites its copy, as a callee may: the caller's bytes must not change. `noipa` keeps the compiler from removing
 * the write.
 */
__attribute__((noipa)) static void take(handle_by_value *handle) {
  received = *handle;
  memset(handle, 0xee, sizeof *handle);
  calls++;
}

static int open_memory(void **out, handle_by_value handle, unsigned flags) {
  received_out = out, received_flags = flags;
  take(&handle);
  *out = (void *)0x123456789abcdef0;
  return 999;
}

static int open_event(void **out, handle_by_value handle) {
  received_out = out;
  take(&handle);
  *out = (void *)0x0fedcba987654321;
  return -7;
}

static void check_handle(unsigned char seed) {
  unsigned char handle[64], before[64];
  /* A view may begin at any address. */
  unsigned char buffer[64 + 7];
  void *out = NULL;
  for (int i = 0; i < 64; i++) handle[i] = before[i] = (unsigned char)(seed + 7 * i);
  for (int shift = 0; shift < 8; shift++) {
    memcpy(buffer + shift, handle, 64);
    CHECK(poolpass_ipc_open_mem_handle((uint64_t)(uintptr_t)open_memory, &out, buffer + shift, 0xfedcba98u), 999);
    CHECK(memcmp(&received, before, 64), 0);
    CHECK(memcmp(buffer + shift, before, 64), 0);
    CHECK(received_out == &out && received_flags == 0xfedcba98u, 1);
    CHECK((uintptr_t)out, 0x123456789abcdef0);
    CHECK(poolpass_ipc_open_event_handle((uint64_t)(uintptr_t)open_event, &out, buffer + shift), -7);
    CHECK(memcmp(&received, before, 64), 0);
    CHECK(memcmp(buffer + shift, before, 64), 0);
    CHECK(received_out == &out, 1);
    CHECK((uintptr_t)out, 0x0fedcba987654321);
  }
}

void check_by_value(void) {
  CHECK(sizeof(handle_by_value), 64);
  check_handle(0);
  check_handle(129);
  CHECK(calls, 2 * 2 * 8);
}
