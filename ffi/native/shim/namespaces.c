/*
 * Identifies processes independently of namespaces: by the inodes of pidfds, and by locks on ranges of a file. Also
 * connects to sockets with abstract names.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <unistd.h>
#include "foreign.h"

#define PIDFS_MAGIC_NUMBER 0x50494446

static int unwrap(long result) { return result < 0 ? -errno : (int)result; }

/* Locks belong to an open file description, and end with it, whatever the namespaces of its processes are. */
static int range_lock(int fd, int operation, short type, uint64_t begin, uint64_t length, struct flock *lock) {
  *lock = (struct flock){ .l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)begin, .l_len = (off_t)length };
  return unwrap(fcntl(fd, operation, lock));
}
EXPORT int poolpass_lock(int fd, uint64_t begin, uint64_t length, uint32_t locked) {
  struct flock lock;
  return range_lock(fd, F_OFD_SETLK, locked ? F_RDLCK : F_UNLCK, begin, length, &lock);
}
/* Returns 1 if another open file description has locked a part of the range, else 0. */
EXPORT int poolpass_is_locked(int fd, uint64_t begin, uint64_t length) {
  struct flock lock;
  int error = range_lock(fd, F_OFD_GETLK, F_WRLCK, begin, length, &lock);
  return error < 0 ? error : lock.l_type != F_UNLCK;
}

EXPORT int poolpass_pidfd_open(int pid) { return unwrap(syscall(SYS_PIDFD_OPEN, pid, 0)); }
/*
 * Returns 1 if the pidfd has an inode of its own (pidfs, since Linux 6.9), else 0. That inode identifies the process in
 * every namespace until the machine restarts.
 */
EXPORT int poolpass_pidfd_inode(int pidfd, uint64_t *inode) {
  struct statfs system;
  struct stat status;
  if (fstatfs(pidfd, &system) < 0 || syscall(SYS_fstat, pidfd, &status) < 0) return -errno;
  *inode = status.st_ino;
  return system.f_type == PIDFS_MAGIC_NUMBER;
}

/* Returns a datagram socket connected to a path, or to an abstract name if it begins with @, as systemd writes it. */
EXPORT int poolpass_connect_datagram(const char *path) {
  struct sockaddr_un address = { .sun_family = AF_UNIX };
  size_t length = strlen(path);
  if (length >= sizeof address.sun_path) return -ENAMETOOLONG;
  memcpy(address.sun_path, path, length);
  if (path[0] == '@') address.sun_path[0] = 0;
  int fd = unwrap(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd < 0) return fd;
  /* An abstract name is not terminated by a NUL: all bytes count. */
  socklen_t size = offsetof(struct sockaddr_un, sun_path) + length + (path[0] != '@');
  int error = unwrap(connect(fd, (const struct sockaddr *)&address, size));
  if (error < 0) close(fd);
  return error < 0 ? error : fd;
}
