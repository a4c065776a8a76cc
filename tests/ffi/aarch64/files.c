/* Checks files, memory files and mappings of memory files. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "shim_functions.h"

static void check_judgement(int fd, unsigned type, unsigned major, unsigned is_memory_file) {
  struct judgement judgement;
  CHECK(poolpass_judge(fd, &judgement), 0);
  CHECK(judgement.mode & S_IFMT, type);
  CHECK(judgement.major, major);
  CHECK(judgement.is_memory_file, is_memory_file);
}

static void check_paths(const char *folder) {
  char path[4096], link[4096], out[4096];
  struct descriptor_status status;
  struct stat expected;
  snprintf(path, sizeof path, "%s/file", folder);
  snprintf(link, sizeof link, "%s/link", folder);
  CHECK(poolpass_open(path, 0), -ENOENT);
  int file = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0640);
  CHECK(write(file, "content", 7), 7);
  CHECK(symlink("file", link), 0);

  int opened = poolpass_open_path(link, 1);
  CHECK(poolpass_status(opened, &status), 0);
  CHECK(S_ISREG(status.mode), 1);
  CHECK(poolpass_close(opened), 0);
  opened = poolpass_open_path(link, 0);
  int length = poolpass_read_link(opened, out, sizeof out);
  CHECK(length, 4);
  CHECK(memcmp(out, "file", 4), 0);
  CHECK(poolpass_status(opened, &status), 0);
  CHECK(S_ISLNK(status.mode), 1);
  CHECK(poolpass_close(opened), 0);

  int reader = poolpass_open(link, 0), writer = poolpass_open(path, 1);
  CHECK(poolpass_pread(reader, out, 100, 3), 4);
  CHECK(memcmp(out, "tent", 4), 0);
  CHECK(poolpass_pwrite(reader, "x", 1, 0), -EBADF);
  CHECK(poolpass_pwrite(writer, "abc", 3, 0x123456789), 3);
  CHECK(stat(path, &expected), 0);
  CHECK(poolpass_status(reader, &status), 0);
  CHECK(status.mode, expected.st_mode);
  CHECK(status.mode & 07777, 0640);
  CHECK(status.size, 0x123456789 + 3);
  CHECK(status.seals < 0, 1);
  CHECK(status.identity.device, expected.st_dev);
  CHECK(status.identity.inode, expected.st_ino);
  CHECK(status.uid, getuid());
  CHECK(fcntl(reader, F_GETFD) & fcntl(writer, F_GETFD), FD_CLOEXEC);
  check_judgement(reader, S_IFREG, 0, 0);
  int copy = poolpass_duplicate(reader);
  CHECK(fcntl(copy, F_GETFD), FD_CLOEXEC);
  CHECK(poolpass_close(reader), 0);
  CHECK(poolpass_pread(copy, out, 1, 0), 1);
  CHECK(poolpass_close(copy) + poolpass_close(writer) + poolpass_close(file), 0);
  CHECK(poolpass_close(copy), -EBADF);
}

static void check_memory(void) {
  uint64_t page = sysconf(_SC_PAGESIZE);
  struct descriptor_status status;
  unsigned char byte = 0;
  int memory = poolpass_memfd("poolpass-test", 2 * page);
  CHECK(poolpass_status(memory, &status), 0);
  CHECK(status.size, 2 * page);
  CHECK(status.seals & (F_SEAL_SHRINK | F_SEAL_SEAL), F_SEAL_SHRINK | F_SEAL_SEAL);
  check_judgement(memory, S_IFREG, 0, 1);
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", memory);
  int named = poolpass_open_path(path, 1);
  CHECK(named >= 0, 1);
  check_judgement(named, S_IFREG, 0, 1);
  CHECK(poolpass_close_aside(named), 0);
  while (fcntl(named, F_GETFD) >= 0) usleep(1000);
  named = poolpass_open_path("/dev/null", 1);
  check_judgement(named, S_IFCHR, 1, 0);
  CHECK(poolpass_close(named), 0);
  CHECK(poolpass_grow(memory, page), -EPERM);
  CHECK(poolpass_grow(memory, 4 * page), 0);

  unsigned char *window = mmap(NULL, 4 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(window != MAP_FAILED, 1);
  CHECK(poolpass_map(window, page, 2 * page, memory, page), 0);
  window[page + 5] = 42;
  CHECK(poolpass_pread(memory, &byte, 1, page + 5), 1);
  CHECK(byte, 42);
  CHECK(poolpass_pwrite(memory, "\x2b", 1, 2 * page), 1);
  CHECK(window[2 * page], 43);
  CHECK(poolpass_punch(memory, page, page), 0);
  CHECK(window[page + 5], 0);
  CHECK(poolpass_unmap(window, page, 2 * page), 0);
  CHECK(window[2 * page], 0);
  window[2 * page] = 1;
  CHECK(poolpass_pread(memory, &byte, 1, 2 * page), 1);
  CHECK(byte, 43);
  CHECK(poolpass_map(window, 0, page, memory, 1), -EINVAL);
  CHECK(poolpass_map(window, 0, page, -1, 0), -EBADF);
  CHECK(poolpass_punch(-1, 0, page), -EBADF);
  munmap(window, 4 * page);
  CHECK(poolpass_close(memory), 0);
}

static void check_locks(void) {
  int memory = poolpass_memfd("poolpass-test", 4096), copy = poolpass_duplicate(memory);
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", memory);
  int first = poolpass_open(path, 1), second = poolpass_open(path, 1);
  CHECK(fcntl(first, F_GETFD), FD_CLOEXEC);
  CHECK(poolpass_lock(first, 0x100000000, 2, 1), 0);
  CHECK(poolpass_lock(second, 0x100000001, 2, 1), 0);
  CHECK(poolpass_is_locked(memory, 0x100000000, 1), 1);
  CHECK(poolpass_is_locked(memory, 0, 0x100000000), 0);
  CHECK(poolpass_is_locked(first, 0x100000000, 1), 0);
  CHECK(poolpass_is_locked(first, 0x100000000, 2), 1);
  CHECK(poolpass_lock(first, 0x100000000, 1, 0), 0);
  CHECK(poolpass_is_locked(memory, 0x100000000, 1), 0);
  CHECK(poolpass_is_locked(memory, 0x100000001, 1), 1);
  CHECK(poolpass_close(first) + poolpass_close(second), 0);
  CHECK(poolpass_is_locked(memory, 0x100000000, 3), 0);
  CHECK(poolpass_lock(copy, 0, 1, 1), 0);
  CHECK(poolpass_is_locked(memory, 0, 1), 0);
  CHECK(poolpass_close(memory) + poolpass_close(copy), 0);
  CHECK(poolpass_lock(memory, 0, 1, 1), -EBADF);
  CHECK(poolpass_is_locked(memory, 0, 1), -EBADF);
}

void check_files(const char *folder) {
  check_paths(folder);
  check_memory();
  check_locks();
}
