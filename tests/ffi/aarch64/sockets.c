/* Checks sockets that listen at a path. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include "shim_functions.h"

static void check_peer(int fd) {
  struct socket_peer peer;
  CHECK(poolpass_peer(fd, &peer), 0);
  CHECK(peer.pid, getpid());
  CHECK(peer.uid, getuid());
  CHECK(peer.gid, getgid());
  /* An emulator may not support pidfds. In that case this is an error number. */
  if (peer.pidfd < 0) return;
  struct pollfd interest = { peer.pidfd, POLLIN, 0 };
  CHECK(poolpass_poll(&interest, 1, 0), 0);
  CHECK(poolpass_close(peer.pidfd), 0);
}

static void check_connection(const char *path, int listener) {
  struct pollfd interest = { listener, POLLIN, 0 };
  struct received out;
  char byte = 'y';
  int received = -1;
  CHECK(poolpass_accept(listener), -EAGAIN);
  int near = poolpass_connect(path);
  CHECK(near >= 0, 1);
  CHECK(poolpass_poll(&interest, 1, -1), 1);
  int far = poolpass_accept(listener);
  CHECK(far >= 0, 1);
  CHECK(fcntl(near, F_GETFD) & fcntl(far, F_GETFD), FD_CLOEXEC);
  check_peer(near);
  check_peer(far);
  CHECK(poolpass_send(near, &byte, 1, &listener, 1), 1);
  CHECK(poolpass_receive(far, &byte, 1, &received, 1, &out), 1);
  CHECK(out.handed_out, 1);
  CHECK(poolpass_accept(received), -EAGAIN);
  CHECK(poolpass_close(received) + poolpass_close(near) + poolpass_close(far), 0);
}

/* Closes a connection with an unread descriptor, and a listening socket with a connection that nobody accepted. */
static void check_closing(const char *path, int listener) {
  char byte = 'z';
  int near = poolpass_connect(path), far = poolpass_accept(listener), waiting = poolpass_connect(path);
  int pair[2];
  CHECK(pipe(pair), 0);
  poolpass_send(near, &byte, 1, pair, 1);
  CHECK(poolpass_close(pair[0]), 0);
  CHECK(poolpass_close_socket(far), 0);
  CHECK(poolpass_close_socket(near), 0);
  CHECK(poolpass_close_socket(listener), 0);
  CHECK(poolpass_close(waiting), 0);
  struct pollfd closed = { pair[1], POLLOUT, 0 };
  while (poolpass_poll(&closed, 1, 1) == 1 && (closed.revents & POLLERR) == 0);
  CHECK(poolpass_close_aside(pair[1]), 0);
  while (fcntl(pair[1], F_GETFD) >= 0) poolpass_poll(NULL, 0, 1);
  CHECK(poolpass_is_closing_stuck(), 0);
}

/* Whoever connects is given a descriptor, until that is stopped: then it and the listening socket are closed. */
static void check_serving(const char *path, int listener) {
  int pair[2], received = -1;
  struct received out;
  char byte;
  CHECK(pipe(pair), 0);
  CHECK(poolpass_serve(listener, pair[1]), 0);
  for (int time = 0; time < 2; time++) {
    int near = poolpass_connect(path);
    struct pollfd interest = { near, POLLIN, 0 };
    CHECK(poolpass_poll(&interest, 1, -1), 1);
    CHECK(poolpass_receive(near, &byte, 1, &received, 1, &out), 1);
    CHECK(out.handed_out, 1);
    CHECK(fcntl(received, F_GETFL) & O_ACCMODE, O_WRONLY);
    CHECK(poolpass_close(received) + poolpass_close(near), 0);
  }
  CHECK(poolpass_stop_serving(listener), 0);
  while (fcntl(listener, F_GETFD) >= 0 || fcntl(pair[1], F_GETFD) >= 0) poolpass_poll(NULL, 0, 1);
  CHECK(poolpass_connect(path), -ECONNREFUSED);
  CHECK(poolpass_close(pair[0]), 0);
}

static void check_datagrams(struct sockaddr_un address, socklen_t length, const char *path) {
  int receiver = socket(AF_UNIX, SOCK_DGRAM, 0), descriptors[2], received;
  char bytes[8];
  struct received out;
  CHECK(bind(receiver, (const struct sockaddr *)&address, length), 0);
  int sender = poolpass_connect_datagram(path);
  CHECK(sender >= 0, 1);
  CHECK(poolpass_send(sender, "READY=1", 7, &receiver, 1), 7);
  CHECK(poolpass_receive(receiver, bytes, sizeof bytes, descriptors, 2, &out), 7);
  CHECK(out.handed_out, 1);
  received = descriptors[0];
  CHECK(memcmp(bytes, "READY=1", 7), 0);
  close(received);
  close(sender);
  close(receiver);
}

void check_sockets(const char *folder) {
  char path[4096], other[4096], too_long[200];
  struct file_identity identity, probed, another;
  struct stat status;
  snprintf(path, sizeof path, "%s/socket", folder);
  snprintf(other, sizeof other, "%s/other", folder);
  CHECK(poolpass_connect(path), -ENOENT);
  CHECK(poolpass_probe(path, &probed), -ENOENT);
  int listener = poolpass_listen(path, ".temporary", 0600, 1, &identity);
  CHECK(listener >= 0, 1);
  CHECK(stat(path, &status), 0);
  CHECK(status.st_mode, S_IFSOCK | 0600);
  CHECK(identity.inode, status.st_ino);
  CHECK(identity.device, status.st_dev);
  CHECK(poolpass_listen(path, ".temporary", 0600, 1, &another), -EADDRINUSE);
  CHECK(poolpass_probe(path, &probed), 1);
  CHECK(probed.inode, identity.inode);
  check_connection(path, listener);

  CHECK(poolpass_remove(path, ".aside", &identity, 0), 0);
  CHECK(poolpass_close(listener), 0);
  CHECK(poolpass_connect(path), -ECONNREFUSED);
  CHECK(poolpass_probe(path, &probed), 0);
  another = (struct file_identity){ identity.device, identity.inode + 1 };
  CHECK(poolpass_remove(path, ".aside", &another, 0), 0);
  CHECK(poolpass_remove(path, ".aside", &identity, 0), 1);
  CHECK(stat(path, &status), -1);
  listener = poolpass_listen(other, ".temporary", 0666, 0, &identity);
  check_closing(other, listener);
  CHECK(poolpass_remove(other, ".aside", &identity, 1), 1);
  listener = poolpass_listen(other, ".temporary", 0600, 0, &identity);
  check_serving(other, listener);
  CHECK(poolpass_remove(other, ".aside", &identity, 0), 1);

  struct sockaddr_un address = { .sun_family = AF_UNIX };
  snprintf(address.sun_path, sizeof address.sun_path, "%s/notify", folder);
  CHECK(poolpass_connect_datagram(address.sun_path), -ENOENT);
  snprintf(other, sizeof other, "%s/notify", folder);
  check_datagrams(address, sizeof address, other);
  snprintf(other, sizeof other, "@poolpass-%d", (int)getpid());
  memset(address.sun_path, 0, sizeof address.sun_path);
  memcpy(address.sun_path + 1, other + 1, strlen(other + 1));
  check_datagrams(address, offsetof(struct sockaddr_un, sun_path) + strlen(other), other);

  memset(too_long, 'a', sizeof too_long - 1);
  too_long[sizeof too_long - 1] = 0;
  CHECK(poolpass_connect(too_long), -ENAMETOOLONG);
  CHECK(poolpass_connect_datagram(too_long), -ENAMETOOLONG);
  CHECK(poolpass_probe(too_long, &probed), -ENAMETOOLONG);
  snprintf(path, sizeof path, "%s/file", folder);
  CHECK(poolpass_probe(path, &probed), -ENOTSOCK);
}
