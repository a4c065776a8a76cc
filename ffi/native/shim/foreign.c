/*
 * Handles files and descriptors that other processes choose. The sender of a descriptor determines how long closing it
 * takes: a TCP socket waits for its peer (SO_LINGER), and a FUSE file for its server, in a wait that cannot even be
 * killed. Such descriptors are therefore examined without calling their file system, and closed by separate threads.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>
#include "foreign.h"

#define MOST_THREADS 4
#define STUCK_MILLISECONDS 1000

/* glibc 2.34 added a new version of the symbol. The original version, which older glibc has too, is used instead. */
#if defined(__x86_64__)
__asm__(".symver pthread_create, pthread_create@GLIBC_2.2.5");
#elif defined(__aarch64__)
__asm__(".symver pthread_create, pthread_create@GLIBC_2.17");
#endif

static int unwrap(long result) { return result < 0 ? -errno : (int)result; }

struct judgement { uint32_t mode; uint32_t major; uint32_t is_memory_file; };
/* The state of one thread. `since` is when its current close has begun, in milliseconds; 0 if it is not closing. */
struct closer { int is_running; int64_t since; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* The variables below are protected by the lock. */
static struct closer closers[MOST_THREADS];
static int *queue;
static size_t queue_length, queue_capacity;

static int64_t milliseconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 + 1;
}

/* Returns 1 if every thread has been blocked in one close for so long that it may never return. */
static int is_stuck(void) {
  int64_t latest = milliseconds_now() - STUCK_MILLISECONDS;
  for (int i = 0; i < MOST_THREADS; i++) if (closers[i].since == 0 || closers[i].since > latest) return 0;
  return 1;
}

/*
 * SO_LINGER is disabled here and not earlier, because another thread may hold the socket's lock for any length of time.
 * A close that fails has released the descriptor nevertheless.
 */
static void *close_queued(void *argument) {
  struct closer *closer = argument;
  const struct linger none = { 0, 0 };
  pthread_mutex_lock(&lock);
  while (queue_length > 0) {
    int fd = queue[--queue_length];
    closer->since = milliseconds_now();
    pthread_mutex_unlock(&lock);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    close(fd);
    pthread_mutex_lock(&lock);
    closer->since = 0;
  }
  closer->is_running = 0;
  pthread_mutex_unlock(&lock);
  return NULL;
}

int start_thread(void *(*function)(void *), void *argument) {
  uint64_t all = ~(uint64_t)0, before;
  pthread_attr_t detached;
  pthread_t thread;
  if (pthread_attr_init(&detached) != 0) return 0;
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
  int is_started = pthread_create(&thread, &detached, function, argument) == 0;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
  return is_started;
}

/* Only memory files can be sealed against shrinking. */
static int is_sealed(int fd) {
  int seals = fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK);
}

/* Without memory for the queue, the descriptor stays open. If no thread starts, it is closed after the next call. */
EXPORT int poolpass_close_aside(int fd) {
  if (is_sealed(fd)) return unwrap(close(fd));
  pthread_mutex_lock(&lock);
  if (queue_length == queue_capacity) {
    size_t capacity = queue_capacity * 2 + 64;
    int *longer = realloc(queue, capacity * sizeof *queue);
    if (longer) {
      queue = longer;
      queue_capacity = capacity;
    }
  }
  int error = queue_length < queue_capacity ? 0 : -ENOMEM;
  if (error == 0) queue[queue_length++] = fd;
  size_t unserved = queue_length;
  for (int i = 0; i < MOST_THREADS; i++) if (closers[i].is_running && closers[i].since == 0 && unserved > 0) unserved--;
  for (int i = 0; i < MOST_THREADS && unserved > 0; i++) {
    if (closers[i].is_running) continue;
    closers[i].is_running = start_thread(close_queued, &closers[i]);
    unserved--;
  }
  pthread_mutex_unlock(&lock);
  return error;
}

EXPORT int poolpass_is_closing_stuck(void) {
  pthread_mutex_lock(&lock);
  int result = is_stuck();
  pthread_mutex_unlock(&lock);
  return result;
}

/*
 * Closes a socket. The thread that closes a socket also closes the contents of its queue: descriptors of unread
 * messages, and connections that were not accepted. After shutdown, nothing is added to the queue.
 */
EXPORT int poolpass_close_socket(int fd) {
  int queued = 0, accepted;
  shutdown(fd, SHUT_RDWR);
  if (ioctl(fd, FIONREAD, &queued) < 0) {
    /* The socket is listening. */
    while ((accepted = accept4(fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) poolpass_close_socket(accepted);
    queued = errno != EAGAIN && errno != EINVAL;
  }
  return queued ? poolpass_close_aside(fd) : unwrap(close(fd));
}

/* A listening socket, and the descriptor that is sent to connecting processes. */
struct service { int listener; int fd; };

static void *serve(void *argument) {
  struct service service = *(struct service *)argument;
  struct pollfd interest = { service.listener, POLLIN, 0 };
  const struct timespec pause = { 0, 10000000 };
  free(argument);
  while (poll(&interest, 1, -1) < 0 || !(interest.revents & POLLHUP)) {
    int client = accept4(service.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (client >= 0) {
      poolpass_send(client, "", 1, &service.fd, 1);
      poolpass_close_socket(client);
    } else if (errno != EAGAIN) {
      nanosleep(&pause, NULL); /* for example, the process cannot open more descriptors */
    }
  }
  close(service.listener);
  close(service.fd);
  return NULL;
}

/*
 * Sends a descriptor to every process that connects to a listening socket, even while the process's own threads are
 * busy. Takes ownership of both, until poolpass_stop_serving.
 */
EXPORT int poolpass_serve(int listener, int fd) {
  struct service *service = malloc(sizeof *service);
  if (!service) return -ENOMEM;
  *service = (struct service){ listener, fd };
  if (start_thread(serve, service)) return 0;
  free(service);
  return -EAGAIN;
}
EXPORT int poolpass_stop_serving(int listener) { return unwrap(shutdown(listener, SHUT_RDWR)); }

/* Returns the ID of the mount that a descriptor's file is on, or -errno. */
static int mount_of(int fd) {
  char path[64], text[512];
  snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
  int info = open(path, O_RDONLY | O_CLOEXEC);
  if (info < 0) return -errno;
  ssize_t length = read(info, text, sizeof text - 1);
  close(info);
  text[length > 0 ? length : 0] = 0;
  const char *found = strstr(text, "mnt_id:");
  return found ? atoi(found + sizeof "mnt_id:" - 1) : -ENOENT;
}

/* All memory files are on one internal mount of the kernel, which has no files with paths. */
static int is_on_mount_of_memory_files(int fd) {
  int mine = memfd_create("poolpass-mount", MFD_CLOEXEC | MFD_NOEXEC_SEAL_FLAG);
  if (mine < 0 && errno == EINVAL) mine = memfd_create("poolpass-mount", MFD_CLOEXEC);
  if (mine < 0) return -errno;
  int memory_files = mount_of(mine), its = mount_of(fd);
  close(mine);
  return memory_files < 0 ? memory_files : its < 0 ? its : its == memory_files;
}

/*
 * Describes the file that a descriptor refers to, without calling its file system. The seals of a descriptor that was
 * opened with O_PATH cannot be read: its mount shows whether it is a memory file.
 */
EXPORT int poolpass_judge(int fd, struct judgement *out) {
  struct statx status = { 0 };
  int is_memory_file = is_sealed(fd);
  int flags = AT_EMPTY_PATH | AT_STATX_DONT_SYNC;
  if (syscall(SYS_statx, fd, "", flags, STATX_TYPE | STATX_MODE, &status) < 0) return -errno;
  if (S_ISREG(status.stx_mode) && (fcntl(fd, F_GETFL) & O_PATH)) is_memory_file = is_on_mount_of_memory_files(fd);
  if (is_memory_file < 0) return is_memory_file;
  *out = (struct judgement){ status.stx_mode, status.stx_rdev_major, (uint32_t)is_memory_file };
  return 0;
}

/* Never blocks, although another process may hold a lease on the file. */
EXPORT int poolpass_open(const char *path, uint32_t writable) {
  return unwrap(open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
}
EXPORT int poolpass_open_path(const char *path, uint32_t follow) {
  return unwrap(open(path, O_PATH | (follow ? 0 : O_NOFOLLOW) | O_CLOEXEC));
}
