/* Checks copies between files and memory in threads, with functions of CUDA that copy at once. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "shim_functions.h"

#define CAPACITY 8192
#define SIZE (5 * CAPACITY + 100)

static int set_context(void *context) { return context == (void *)7 ? 0 : 201; }
static int register_memory(void *memory, size_t length, unsigned flags) {
  return memory != NULL && length == 2 * CAPACITY && flags == 0 ? 0 : 1;
}
static int unregister_memory(void *memory) { return memory == NULL; }
static int create_stream(void **stream, unsigned flags) { *stream = stream; return flags != 1; }
static int use_stream(void *stream) { return stream == NULL; }
static int copy_in(uint64_t target, const void *source, size_t length, void *stream) {
  memcpy((void *)(uintptr_t)target, source, length);
  return use_stream(stream);
}
static int copy_out(void *target, uint64_t source, size_t length, void *stream) {
  memcpy(target, (void *)(uintptr_t)source, length);
  return use_stream(stream);
}

/* Copies memory from or to a file, and returns the result. */
static int transfer(int file, unsigned char *memory, int is_written, uint64_t context, uint64_t failed_at[2]) {
  uint64_t pieces[6][5], out = 0;
  for (int i = 0; i < 6; i++) {
    uint64_t offset = (uint64_t)i * CAPACITY, length = i < 5 ? CAPACITY : SIZE - 5 * CAPACITY;
    memcpy(pieces[i], (uint64_t[]){ file, offset, length, (uint64_t)(uintptr_t)(memory + offset), 0 }, sizeof pieces[i]);
  }
  void *functions[] = { (void *)set_context, (void *)register_memory, (void *)unregister_memory, (void *)create_stream,
                        (void *)use_stream, (void *)use_stream, (void *)copy_in, (void *)copy_out };
  uint64_t plan[14] = { context };
  for (int i = 0; i < 8; i++) plan[i + 1] = (uint64_t)(uintptr_t)functions[i];
  memcpy(plan + 9, (uint64_t[]){ 2, CAPACITY, 6, is_written ? (uint64_t)file : (uint64_t)-1, SIZE }, 5 * 8);
  CHECK(poolpass_transfer(plan, pieces, &out), 0);
  const volatile int64_t *state = (const volatile int64_t *)(uintptr_t)out;
  while (state[0] > 0) usleep(100);
  if (context == 7) CHECK(state[1], 6);
  return poolpass_transfer_end(out, failed_at);
}

void check_transfers(void) {
  static unsigned char memory[SIZE], copy[SIZE];
  uint64_t failed_at[2];
  int file = poolpass_memfd("poolpass-test", SIZE);
  for (int i = 0; i < SIZE; i++) memory[i] = (unsigned char)(i / 3);
  CHECK(transfer(file, memory, 1, 7, failed_at), 0);
  CHECK(transfer(file, copy, 0, 7, failed_at), 0);
  CHECK(memcmp(memory, copy, SIZE), 0);
  CHECK(transfer(file, copy, 0, 8, failed_at), 201);
  CHECK(poolpass_close(file), 0);
}
