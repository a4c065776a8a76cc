/* Sends descriptors over a socket pair, and checks waits and errors. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "shim_functions.h"

enum { max_descriptors = 253 };

static int near, far;

/* Returns the lowest free descriptor. If it is the same afterwards, all descriptors were closed. */
static int lowest_free(void) {
  int fd = dup(0);
  close(fd);
  return fd;
}

static void check_same_file(int left, int right) {
  struct descriptor_status a, b;
  CHECK(poolpass_status(left, &a), 0);
  CHECK(poolpass_status(right, &b), 0);
  CHECK(a.identity.inode, b.identity.inode);
  CHECK(a.identity.device, b.identity.device);
}

static void check_bytes(void) {
  char bytes[8] = "", sent[] = { 'a', 'b', (char)0xff };
  struct received out;
  int fds[1];
  CHECK(poolpass_receive(far, bytes, 8, fds, 1, &out), -EAGAIN);
  CHECK(poolpass_send(near, sent, 3, NULL, 0), 3);
  CHECK(poolpass_receive(far, bytes, 8, fds, 1, &out), 3);
  CHECK(memcmp(bytes, sent, 3), 0);
  CHECK(out.handed_out + out.arrived + out.truncated, 0);
}

static void check_descriptors_of(int count, int capacity) {
  char byte = 'x';
  int memory = poolpass_memfd("poolpass-test", 4096), fds[max_descriptors], received[max_descriptors];
  struct received out;
  for (int i = 0; i < count; i++) fds[i] = memory;
  int before = lowest_free();
  CHECK(poolpass_send(near, &byte, 1, fds, count), 1);
  CHECK(poolpass_receive(far, &byte, 1, received, capacity, &out), 1);
  CHECK(out.arrived, count);
  CHECK(out.truncated, 0);
  CHECK(out.handed_out, count <= capacity ? count : 0);
  for (uint32_t i = 0; i < out.handed_out; i++) {
    check_same_file(received[i], memory);
    CHECK(fcntl(received[i], F_GETFD), FD_CLOEXEC);
    CHECK(poolpass_close(received[i]), 0);
  }
  CHECK(lowest_free(), before);
  CHECK(poolpass_close(memory), 0);
}

static void check_errors(void) {
  int fds[max_descriptors + 1] = { 0 };
  struct received out;
  char byte = 0;
  CHECK(poolpass_send(near, &byte, 1, fds, max_descriptors + 1), -EINVAL);
  CHECK(poolpass_send(near, &byte, 1, (int[]){ -1 }, 1), -EBADF);
  CHECK(poolpass_send(-1, &byte, 1, NULL, 0), -EBADF);
  CHECK(poolpass_receive(0x7fffffff, &byte, 1, fds, 1, &out), -EBADF);
  CHECK(poolpass_close(-1), -EBADF);
  CHECK(poolpass_duplicate(0x7fffffff), -EBADF);
  CHECK(poolpass_eventfd_set(-1), -EBADF);
}

static void check_waits(void) {
  int event = poolpass_eventfd();
  CHECK(event >= 0, 1);
  struct pollfd interests[2] = { { event, POLLIN, 0 }, { far, POLLIN, 0 } };
  CHECK(poolpass_poll(interests, 2, 0), 0);
  CHECK(poolpass_eventfd_clear(event), -EAGAIN);
  CHECK(poolpass_eventfd_set(event), 0);
  CHECK(poolpass_poll(interests, 2, -1), 1);
  CHECK(interests[0].revents, POLLIN);
  CHECK(interests[1].revents, 0);
  CHECK(poolpass_park(interests, 2), 1);
  CHECK(poolpass_eventfd_clear(event), 0);
  CHECK(poolpass_poll(interests, 1, 1), 0);
  CHECK(fcntl(event, F_GETFD), FD_CLOEXEC);
  CHECK(poolpass_close(event), 0);
}

static void check_end(void) {
  char byte = 0;
  int fds[1];
  struct received out;
  struct pollfd interest = { far, POLLIN, 0 };
  CHECK(poolpass_close(near), 0);
  CHECK(poolpass_poll(&interest, 1, -1), 1);
  CHECK(interest.revents, POLLIN | POLLHUP);
  CHECK(poolpass_receive(far, &byte, 1, fds, 1, &out), 0);
  CHECK(poolpass_send(far, &byte, 1, NULL, 0), -EPIPE);
  CHECK(poolpass_close(far), 0);
}

void check_descriptors(void) {
  int pair[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  near = pair[0], far = pair[1];
  CHECK(poolpass_getpid(), getpid());
  int process = poolpass_pidfd_open(getpid());
  uint64_t inode = 0, other = 0;
  int is_own = poolpass_pidfd_inode(process, &inode);
  CHECK(is_own == 0 || is_own == 1, 1);
  CHECK(inode != 0, 1);
  int memory = poolpass_memfd("poolpass-test", 4096);
  CHECK(poolpass_pidfd_inode(memory, &other), 0);
  CHECK(poolpass_close(process) + poolpass_close(memory), 0);
  CHECK(poolpass_pidfd_inode(process, &inode), -EBADF);
  CHECK(poolpass_pidfd_open(-1), -EINVAL);
  CHECK(poolpass_geteuid(), geteuid());
  check_bytes();
  check_descriptors_of(1, 1);
  check_descriptors_of(3, 8);
  check_descriptors_of(max_descriptors, max_descriptors);
  check_descriptors_of(3, 2);
  check_descriptors_of(1, 0);
  check_errors();
  check_waits();
  check_end();
}
