/*
 * What means the same in all namespaces: which process a descriptor is of, and which part of a file a process keeps.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>
#include "foreign.h"

#define PIDFS_MAGIC_NUMBER 0x50494446

static int unwrap(long result) { return result < 0 ? -errno : (int)result; }

/* Locks belong to an open file description, and end with it, whatever namespaces its processes live in. */
static int range_lock(int fd, int operation, short type, uint64_t begin, uint64_t length, struct flock *lock) {
  *lock = (struct flock){ .l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)begin, .l_len = (off_t)length };
  return unwrap(fcntl(fd, operation, lock));
}
EXPORT int poolpass_lock(int fd, uint64_t begin, uint64_t length, uint32_t locked) {
  struct flock lock;
  return range_lock(fd, F_OFD_SETLK, locked ? F_RDLCK : F_UNLCK, begin, length, &lock);
}
/* 1 if another open file description has locked a part of the range, else 0. */
EXPORT int poolpass_is_locked(int fd, uint64_t begin, uint64_t length) {
  struct flock lock;
  int error = range_lock(fd, F_OFD_GETLK, F_WRLCK, begin, length, &lock);
  return error < 0 ? error : lock.l_type != F_UNLCK;
}

EXPORT int poolpass_pidfd_open(int pid) { return unwrap(syscall(SYS_PIDFD_OPEN, pid, 0)); }
/*
 * 1 if the pidfd has an inode of its own (pidfs, since Linux 6.9), else 0. That inode identifies the process in every
 * namespace until the machine restarts.
 */
EXPORT int poolpass_pidfd_inode(int pidfd, uint64_t *inode) {
  struct statfs system;
  struct stat status;
  if (fstatfs(pidfd, &system) < 0 || syscall(SYS_fstat, pidfd, &status) < 0) return -errno;
  *inode = status.st_ino;
  return system.f_type == PIDFS_MAGIC_NUMBER;
}
