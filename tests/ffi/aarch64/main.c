/*
 * Calls every function of the shim on the processor that it was built for: main LIBRARY FOLDER. Prints the names of all
 * functions, or the first check that fails.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "shim_functions.h"

#define DEFINE(result, name, parameters) result (*name) parameters;
FUNCTIONS(DEFINE)

void fail(const char *file, int line, const char *what, long long left, long long right) {
  fprintf(stderr, "%s:%d: failed: %s; left is %lld, right is %lld\n", file, line, what, left, right);
  exit(1);
}

/* Loads the shim as the library does: from a memory file, by its path under /proc. */
static void *load(const char *path) {
  static char bytes[1 << 20];
  char name[64];
  int file = open(path, O_RDONLY), memory = memfd_create("poolpass-shim", MFD_CLOEXEC);
  ssize_t length = read(file, bytes, sizeof bytes);
  CHECK(file >= 0 && memory >= 0 && length > 0 && length < (ssize_t)sizeof bytes, 1);
  CHECK(write(memory, bytes, length), length);
  snprintf(name, sizeof name, "/proc/self/fd/%d", memory);
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!library) fprintf(stderr, "%s\n", dlerror());
  CHECK(library != NULL, 1);
  close(memory);
  close(file);
  return library;
}

int main(int count, char **arguments) {
  CHECK(count, 3);
  void *library = load(arguments[1]);
#define FIND(result, name, parameters) *(void **)&name = dlsym(library, #name); CHECK(name != NULL, 1);
  FUNCTIONS(FIND)
  check_by_value();
  check_descriptors();
  check_files(arguments[2]);
  check_sockets(arguments[2]);
  check_transfers();
#define PRINT(result, name, parameters) puts(#name);
  FUNCTIONS(PRINT)
  return 0;
}
