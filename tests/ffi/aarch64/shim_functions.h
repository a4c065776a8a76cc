/* The functions of the shim, which main.c finds in the library, and helpers for checks. */
#ifndef SHIM_FUNCTIONS_H
#define SHIM_FUNCTIONS_H
#include <poll.h>
#include <stddef.h>
#include <stdint.h>

struct socket_peer { int32_t pid; uint32_t uid; uint32_t gid; int32_t pidfd; };
struct file_identity { uint64_t device; uint64_t inode; };
struct received { uint32_t handed_out; uint32_t arrived; uint32_t truncated; };
struct descriptor_status { uint64_t mode; uint64_t size; int64_t seals; struct file_identity identity; uint64_t uid; };
struct judgement { uint32_t mode; uint32_t major; uint32_t is_memory_file; };

/* TypeScript reads these structs as arrays of numbers of one size, and writes a pollfd as two 32-bit numbers. */
_Static_assert(sizeof(struct socket_peer) == 4 * 4 && offsetof(struct socket_peer, pidfd) == 3 * 4, "socket_peer");
_Static_assert(sizeof(struct file_identity) == 2 * 8 && offsetof(struct file_identity, inode) == 8, "file_identity");
_Static_assert(sizeof(struct received) == 3 * 4 && offsetof(struct received, truncated) == 2 * 4, "received");
_Static_assert(sizeof(struct judgement) == 3 * 4 && offsetof(struct judgement, is_memory_file) == 2 * 4, "judgement");
_Static_assert(sizeof(struct descriptor_status) == 6 * 8, "descriptor_status");
_Static_assert(offsetof(struct descriptor_status, seals) == 2 * 8, "descriptor_status.seals");
_Static_assert(offsetof(struct descriptor_status, identity) == 3 * 8, "descriptor_status.identity");
_Static_assert(offsetof(struct descriptor_status, uid) == 5 * 8, "descriptor_status.uid");
_Static_assert(sizeof(struct pollfd) == 8 && offsetof(struct pollfd, events) == 4, "pollfd");
_Static_assert(offsetof(struct pollfd, revents) == 6, "pollfd.revents");

#define FUNCTIONS(function) \
  function(int, poolpass_listen, (const char *, const char *, uint32_t, uint32_t, struct file_identity *)) \
  function(int, poolpass_probe, (const char *, struct file_identity *)) \
  function(int, poolpass_remove, (const char *, const char *, const struct file_identity *, uint32_t)) \
  function(int, poolpass_connect, (const char *)) \
  function(int, poolpass_accept, (int)) \
  function(int, poolpass_peer, (int, struct socket_peer *)) \
  function(int, poolpass_send, (int, const void *, uint64_t, const int *, uint32_t)) \
  function(int, poolpass_receive, (int, void *, uint64_t, int *, uint32_t, struct received *)) \
  function(int, poolpass_poll, (struct pollfd *, uint32_t, int32_t)) \
  function(int, poolpass_park, (const struct pollfd *, uint32_t)) \
  function(int, poolpass_eventfd, (void)) \
  function(int, poolpass_eventfd_set, (int)) \
  function(int, poolpass_eventfd_clear, (int)) \
  function(int, poolpass_read_link, (int, char *, uint64_t)) \
  function(int, poolpass_close, (int)) \
  function(int, poolpass_duplicate, (int)) \
  function(int, poolpass_pread, (int, void *, uint64_t, uint64_t)) \
  function(int, poolpass_pwrite, (int, const void *, uint64_t, uint64_t)) \
  function(int, poolpass_status, (int, struct descriptor_status *)) \
  function(int, poolpass_memfd, (const char *, uint64_t)) \
  function(int, poolpass_grow, (int, uint64_t)) \
  function(int, poolpass_punch, (int, uint64_t, uint64_t)) \
  function(int, poolpass_map, (unsigned char *, uint64_t, uint64_t, int, uint64_t)) \
  function(int, poolpass_unmap, (unsigned char *, uint64_t, uint64_t)) \
  function(int, poolpass_getpid, (void)) \
  function(uint32_t, poolpass_geteuid, (void)) \
  function(int, poolpass_ipc_open_mem_handle, (uint64_t, void *, const void *, uint32_t)) \
  function(int, poolpass_ipc_open_event_handle, (uint64_t, void *, const void *)) \
  function(int, poolpass_close_aside, (int)) \
  function(int, poolpass_is_closing_stuck, (void)) \
  function(int, poolpass_close_socket, (int)) \
  function(int, poolpass_serve, (int, int)) \
  function(int, poolpass_stop_serving, (int)) \
  function(int, poolpass_judge, (int, struct judgement *)) \
  function(int, poolpass_open, (const char *, uint32_t)) \
  function(int, poolpass_open_path, (const char *, uint32_t)) \
  function(int, poolpass_lock, (int, uint64_t, uint64_t, uint32_t)) \
  function(int, poolpass_is_locked, (int, uint64_t, uint64_t)) \
  function(int, poolpass_pidfd_open, (int)) \
  function(int, poolpass_pidfd_inode, (int, uint64_t *)) \
  function(int, poolpass_connect_datagram, (const char *)) \
  function(int, poolpass_transfer, (const void *, const void *, uint64_t *)) \
  function(int, poolpass_transfer_end, (uint64_t, uint64_t *))

#define DECLARE(result, name, parameters) extern result (*name) parameters;
FUNCTIONS(DECLARE)

void fail(const char *file, int line, const char *what, long long left, long long right);
#define CHECK(left, right) do { \
    long long left_ = (long long)(left), right_ = (long long)(right); \
    if (left_ != right_) fail(__FILE__, __LINE__, #left " == " #right, left_, right_); \
  } while (0)

void check_by_value(void);
void check_descriptors(void);
void check_files(const char *folder);
void check_sockets(const char *folder);
void check_transfers(void);
#endif
