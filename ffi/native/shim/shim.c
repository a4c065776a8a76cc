/*
 * The calls to Linux and CUDA that plain FFI cannot express: passing descriptors over sockets, errno, C structs by
 * value. There is no state here, so any thread may call any function. Each function returns 0 or more, or -errno.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>
#include "foreign.h"

/* Some headers and C libraries are too old to define these. */
#define SO_PEERPIDFD_NUMBER 77
#define SO_PASSRIGHTS_NUMBER 83
#define RENAME_NOREPLACE_FLAG 1u
/* The kernel's SCM_MAX_FD: the maximum number of descriptors in a message. */
#define MAX_DESCRIPTORS 253
/* The size of a path of 107 bytes and its NUL. */
#define PATH_SIZE ((int)sizeof((struct sockaddr_un){ 0 }.sun_path))
/* The maximum number of bytes that one call transfers, so that the number fits into the result. */
#define MAX_BYTES 0x40000000u

union control { struct cmsghdr header; char bytes[CMSG_SPACE(MAX_DESCRIPTORS * sizeof(int))]; };
struct socket_peer { int32_t pid; uint32_t uid; uint32_t gid; int32_t pidfd; };
struct file_identity { uint64_t device; uint64_t inode; };
struct received { uint32_t handed_out; uint32_t arrived; uint32_t truncated; };
struct descriptor_status { uint64_t mode; uint64_t size; int64_t seals; struct file_identity identity; uint64_t uid; };
struct bytes64 { unsigned char bytes[64]; };

static int unwrap(long result) { return result < 0 ? -errno : (int)result; }
static size_t at_most(uint64_t length) { return length < MAX_BYTES ? (size_t)length : MAX_BYTES; }
static int close_and(int fd, int result) { close(fd); return result; }
/* Makes the system call itself: glibc's fstat and fstatat have a symbol version of 2.33. */
static int status_at(int folder, const char *name, struct stat *status) {
  return unwrap(syscall(SYS_newfstatat, folder, name, status, AT_SYMLINK_NOFOLLOW));
}

/* Moves a file to a free name. Not every file system supports RENAME_NOREPLACE; link and unlink then do the same. */
static int move_at(int folder, const char *from, const char *to) {
  int moved = unwrap(syscall(SYS_renameat2, folder, from, folder, to, RENAME_NOREPLACE_FLAG));
  if (moved != -EINVAL && moved != -ENOSYS) return moved;
  return linkat(folder, from, folder, to, 0) < 0 ? -errno : unwrap(unlinkat(folder, from, 0));
}

/* Opens the folder of a path of at most 107 bytes, and sets *name to the last component of the path. */
static int open_folder(const char *path, const char **name) {
  char folder[PATH_SIZE];
  const char *slash = strrchr(path, '/');
  *name = slash ? slash + 1 : path;
  if (snprintf(folder, sizeof folder, "%.*s", (int)(*name - path), path) >= PATH_SIZE) return -ENAMETOOLONG;
  return unwrap(open(slash ? folder : ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
}

static int address_of(const char *path, struct sockaddr_un *address) {
  *address = (struct sockaddr_un){ .sun_family = AF_UNIX };
  return snprintf(address->sun_path, sizeof address->sun_path, "%s", path) < PATH_SIZE ? 0 : -ENAMETOOLONG;
}

/* Builds an address through the open folder, so that a temporary name fits however long the path of the folder is. */
static int address_in(int folder, const char *name, struct sockaddr_un *address) {
  char path[2 * PATH_SIZE];
  snprintf(path, sizeof path, "/proc/self/fd/%d/%s", folder, name);
  return address_of(path, address);
}

static void set_option(int fd, int option, int value) { setsockopt(fd, SOL_SOCKET, option, &value, sizeof value); }
static int new_socket(int type) { return unwrap(socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

static int connect_to(const struct sockaddr_un *address, int type) {
  int fd = new_socket(type);
  if (fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof *address) < 0) return close_and(fd, -errno);
  return fd;
}

/* Returns 1 if a socket is bound to the address, 0 if not. The probing datagram socket never becomes a client. */
static int is_live(const struct sockaddr_un *address) {
  int fd = connect_to(address, SOCK_DGRAM);
  if (fd >= 0) return close_and(fd, 1);
  return fd == -ECONNREFUSED ? 0 : fd == -EAGAIN || fd == -EPROTOTYPE ? 1 : fd;
}

/*
 * The file has a temporary name until the socket listens, so a socket file at the path that refuses connections is
 * stale. bind gives the file the socket's own mode, less the umask. The socket's mode is set before bind, so the file's
 * mode is never wider than requested. A connecting process can send descriptors before the connection is accepted:
 * Linux 6.16 refuses them to the sender if the listening socket does not pass rights.
 */
EXPORT int poolpass_listen(const char *path, const char *temporary, uint32_t mode, uint32_t passes_rights,
                           struct file_identity *identity) {
  const char *name;
  struct sockaddr_un address;
  struct stat status;
  int folder = open_folder(path, &name);
  if (folder < 0) return folder;
  int fd = new_socket(SOCK_STREAM);
  int error = fd < 0 ? fd : address_in(folder, temporary, &address);
  if (fd >= 0 && !passes_rights) set_option(fd, SO_PASSRIGHTS_NUMBER, 0);
  if (error == 0) error = unwrap(fchmod(fd, mode));
  if (error == 0) error = unwrap(bind(fd, (struct sockaddr *)&address, sizeof address));
  int bound = error == 0;
  if (error == 0) error = unwrap(fchmodat(folder, temporary, mode, 0));
  if (error == 0) error = unwrap(listen(fd, 128)); /* a short queue, because a peer may keep it full */
  if (error == 0) error = status_at(folder, temporary, &status);
  if (error == 0) error = move_at(folder, temporary, name);
  if (error == 0) *identity = (struct file_identity){ status.st_dev, status.st_ino };
  else if (bound) unlinkat(folder, temporary, 0);
  if (error < 0 && fd >= 0) close(fd);
  return close_and(folder, error == -EEXIST ? -EADDRINUSE : error < 0 ? error : fd);
}

/* Returns 1 if a process listens at the path, 0 if the socket file is stale, -ENOTSOCK if the file is not a socket. */
EXPORT int poolpass_probe(const char *path, struct file_identity *identity) {
  struct sockaddr_un address;
  struct stat status;
  int error = address_of(path, &address);
  if (error == 0) error = status_at(AT_FDCWD, path, &status);
  if (error < 0) return error;
  *identity = (struct file_identity){ status.st_dev, status.st_ino };
  return S_ISSOCK(status.st_mode) ? is_live(&address) : -ENOTSOCK;
}

static int is_socket_file(int folder, const char *name, const struct file_identity *identity) {
  struct stat status;
  int error = status_at(folder, name, &status);
  if (error < 0) return error;
  return S_ISSOCK(status.st_mode) && status.st_dev == identity->device && status.st_ino == identity->inode;
}

/*
 * Removes a socket file if it has the identity and, unless it is the caller's own, no process listens there. Returns 1
 * if removed, 0 if not. Another file can take the path between a check and a removal, so the file is moved aside,
 * checked there, and moved back if it is another. Inode numbers are reused, hence the second probe for a listener.
 */
EXPORT int poolpass_remove(const char *path, const char *aside, const struct file_identity *identity, uint32_t own) {
  const char *name;
  struct sockaddr_un address;
  int folder = open_folder(path, &name);
  if (folder < 0) return folder;
  int error = address_in(folder, aside, &address);
  int ours = error < 0 ? error : is_socket_file(folder, name, identity);
  if (ours == 1) {
    error = move_at(folder, name, aside);
    if (error < 0) return close_and(folder, error);
    ours = is_socket_file(folder, aside, identity) == 1 && (own || is_live(&address) == 0);
    error = ours ? unwrap(unlinkat(folder, aside, 0)) : move_at(folder, aside, name);
  }
  return close_and(folder, error < 0 ? error : ours);
}

EXPORT int poolpass_connect(const char *path) {
  struct sockaddr_un address;
  int error = address_of(path, &address);
  return error < 0 ? error : connect_to(&address, SOCK_STREAM);
}
EXPORT int poolpass_accept(int fd) { return unwrap(accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)); }

/*
 * Identifies the peer of a connection. The pidfd is that of the process that connected or listened, or -errno: -ESRCH
 * if the process has ended, which Linux before 6.15 reports as -EINVAL. Must be the first call on a connection: from
 * then on, urgent bytes are part of the stream. Otherwise a read would drop such a byte, and close its descriptors.
 */
EXPORT int poolpass_peer(int fd, struct socket_peer *peer) {
  struct ucred credentials;
  socklen_t length = sizeof credentials, pidfd_length = sizeof peer->pidfd;
  set_option(fd, SO_OOBINLINE, 1);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) < 0) return -errno;
  *peer = (struct socket_peer){ credentials.pid, credentials.uid, credentials.gid, -1 };
  if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD_NUMBER, &peer->pidfd, &pidfd_length) == 0) return 0;
  peer->pidfd = errno == EINVAL ? -ESRCH : -errno;
  if (errno == ENOPROTOOPT) peer->pidfd = unwrap(syscall(SYS_PIDFD_OPEN, credentials.pid, 0));
  return 0;
}

/* Sends bytes, and the descriptors with the first byte. */
EXPORT int poolpass_send(int fd, const void *bytes, uint64_t length, const int *fds, uint32_t count) {
  struct iovec data = { .iov_base = (void *)bytes, .iov_len = at_most(length) };
  struct msghdr message = { NULL, 0, &data, 1, NULL, 0, 0 };
  union control control = { 0 };
  if (count > MAX_DESCRIPTORS) return -EINVAL;
  if (count > 0) {
    message.msg_control = &control;
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    control.header = (struct cmsghdr){ CMSG_LEN(count * sizeof(int)), SOL_SOCKET, SCM_RIGHTS };
    memcpy(CMSG_DATA(&control.header), fds, count * sizeof(int));
  }
  return unwrap(sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT));
}

/*
 * Returns all descriptors that arrived, or closes all of them if fds is too small or the kernel dropped some. The
 * buffer has space for as many as the kernel can deliver, so the kernel drops some only if the process cannot open
 * more.
 */
EXPORT int poolpass_receive(int fd, void *bytes, uint64_t length, int *fds, uint32_t capacity, struct received *out) {
  struct iovec data = { .iov_base = bytes, .iov_len = at_most(length) };
  union control control;
  struct msghdr message = { NULL, 0, &data, 1, &control, sizeof control, 0 };
  int arrived[MAX_DESCRIPTORS];
  *out = (struct received){ 0 };
  int result = unwrap(recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT));
  if (result < 0) return result;
  for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    memcpy(arrived + out->arrived, CMSG_DATA(header), header->cmsg_len - CMSG_LEN(0));
    out->arrived += (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
  }
  out->truncated = (message.msg_flags & MSG_CTRUNC) != 0;
  if (out->truncated || out->arrived > capacity) {
    for (uint32_t i = 0; i < out->arrived; i++) poolpass_close_aside(arrived[i]);
  } else {
    memcpy(fds, arrived, out->arrived * sizeof(int));
    out->handed_out = out->arrived;
  }
  return result;
}

EXPORT int poolpass_poll(struct pollfd *interests, uint32_t count, int32_t milliseconds) {
  return unwrap(poll(interests, count, milliseconds));
}

/* Waits without writing to the caller's memory: when the wait ends, the caller's thread and its memory may be gone. */
EXPORT int poolpass_park(const struct pollfd *interests, uint32_t count) {
  struct pollfd *copy = malloc(count * sizeof *copy + 1);
  if (!copy) return -ENOMEM;
  memcpy(copy, interests, count * sizeof *copy);
  int result = unwrap(poll(copy, count, -1));
  free(copy);
  return result;
}

EXPORT int poolpass_eventfd(void) { return unwrap(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)); }
EXPORT int poolpass_eventfd_set(int fd) { return unwrap(eventfd_write(fd, 1)); }
EXPORT int poolpass_eventfd_clear(int fd) { eventfd_t count; return unwrap(eventfd_read(fd, &count)); }

EXPORT int poolpass_read_link(int fd, char *out, uint64_t size) { return unwrap(readlinkat(fd, "", out, size)); }
EXPORT int poolpass_close(int fd) { return unwrap(close(fd)); }
EXPORT int poolpass_duplicate(int fd) { return unwrap(fcntl(fd, F_DUPFD_CLOEXEC, 0)); }
EXPORT int poolpass_pread(int fd, void *bytes, uint64_t length, uint64_t offset) {
  return unwrap(pread(fd, bytes, at_most(length), (off_t)offset));
}
EXPORT int poolpass_pwrite(int fd, const void *bytes, uint64_t length, uint64_t offset) {
  return unwrap(pwrite(fd, bytes, at_most(length), (off_t)offset));
}

/* The seals are -1 unless the file is a memory file: no other file can have seals. */
EXPORT int poolpass_status(int fd, struct descriptor_status *out) {
  struct stat status;
  if (syscall(SYS_fstat, fd, &status) < 0) return -errno;
  struct file_identity identity = { status.st_dev, status.st_ino };
  *out = (struct descriptor_status){ status.st_mode, status.st_size, fcntl(fd, F_GET_SEALS), identity, status.st_uid };
  return 0;
}

/* The file can grow and have holes, but cannot shrink under a process that maps it. No more seals can be added. */
EXPORT int poolpass_memfd(const char *name, uint64_t size) {
  unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  int fd = unwrap(memfd_create(name, flags | MFD_NOEXEC_SEAL_FLAG));
  if (fd == -EINVAL) fd = unwrap(memfd_create(name, flags));
  if (fd < 0 || (ftruncate(fd, size) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) == 0)) return fd;
  return close_and(fd, -errno);
}
EXPORT int poolpass_grow(int fd, uint64_t size) { return unwrap(ftruncate(fd, (off_t)size)); }
EXPORT int poolpass_punch(int fd, uint64_t offset, uint64_t length) {
  return unwrap(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)length));
}

/* Both functions replace the old mapping atomically, so that no other thread can map something in between. */
EXPORT int poolpass_map(unsigned char *base, uint64_t at, uint64_t length, int fd, uint64_t offset) {
  void *mapped = mmap(base + at, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, (off_t)offset);
  return mapped == MAP_FAILED ? -errno : 0;
}
EXPORT int poolpass_unmap(unsigned char *base, uint64_t at, uint64_t length) {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
  return mmap(base + at, length, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED ? -errno : 0;
}

EXPORT int poolpass_getpid(void) { return getpid(); }
EXPORT uint32_t poolpass_geteuid(void) { return geteuid(); }

/*
 * cudaIpcOpenMemHandle and cudaIpcOpenEventHandle take a 64-byte struct by value. The functions below return CUDA's
 * error number.
 */
EXPORT int poolpass_ipc_open_mem_handle(uint64_t function, void *out, const struct bytes64 *handle, uint32_t flags) {
  return ((int (*)(void *, struct bytes64, unsigned))(uintptr_t)function)(out, *handle, flags);
}
EXPORT int poolpass_ipc_open_event_handle(uint64_t function, void *out, const struct bytes64 *handle) {
  return ((int (*)(void *, struct bytes64))(uintptr_t)function)(out, *handle);
}
