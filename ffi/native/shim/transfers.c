/*
 * Copies between files and device memory, in threads of its own: each reads or writes one piece while another piece is
 * being copied. The thread that starts them only awaits their end.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "foreign.h"

/* Some headers are too old to define these. */
#define MADV_POPULATE_WRITE_ADVICE 23
#define MADV_COLLAPSE_ADVICE 25
#define HUGE_PAGE ((uint64_t)2 << 20)
#define STREAM_NON_BLOCKING 1u

/* A range of a file that is read or written at once, its address in device memory, and whether it has been copied. */
struct piece { int64_t fd; uint64_t offset, length, address, is_copied; };

/* The arguments of a transfer, with functions of libcuda. target is a memory file that is written, or negative. */
struct plan {
  void *context;
  int (*context_set_current)(void *context);
  int (*host_register)(void *memory, size_t length, unsigned flags);
  int (*host_unregister)(void *memory);
  int (*stream_create)(void **stream, unsigned flags);
  int (*stream_synchronize)(void *stream);
  int (*stream_destroy)(void *stream);
  int (*copy_to_device)(uint64_t target, const void *source, size_t length, void *stream);
  int (*copy_to_host)(void *target, uint64_t source, size_t length, void *stream);
  uint64_t lanes, capacity, piece_count;
  int64_t target;
  uint64_t target_size;
};

/*
 * The caller reads how many threads run and how many pieces at the beginning have all been copied, and writes `stop`. The
 * lock protects what the threads change.
 */
struct transfer {
  int64_t running, copied;
  volatile int64_t stop;
  int64_t error;
  uint64_t failed_at[2];
  pthread_mutex_t lock;
  struct plan plan;
  uint64_t next;
  unsigned char *reserved, *mapped;
  struct piece *pieces;
};

/* One of the two buffers of a thread, and the piece that it holds. */
struct buffer { unsigned char *bytes; void *stream; struct piece *piece; };

/* Errors of CUDA are positive, and those of Linux negative. The first one counts. */
static void fail(struct transfer *transfer, int error, const struct piece *piece, uint64_t begin) {
  if (error == 0) return;
  pthread_mutex_lock(&transfer->lock);
  if (transfer->error == 0) {
    transfer->error = error;
    transfer->failed_at[0] = piece ? (uint64_t)piece->fd : 0;
    transfer->failed_at[1] = piece ? piece->offset + begin : 0;
  }
  transfer->stop = 1;
  pthread_mutex_unlock(&transfer->lock);
}

static struct piece *next_piece(struct transfer *transfer) {
  pthread_mutex_lock(&transfer->lock);
  int is_over = transfer->stop || transfer->next == transfer->plan.piece_count;
  struct piece *piece = is_over ? NULL : &transfer->pieces[transfer->next++];
  pthread_mutex_unlock(&transfer->lock);
  return piece;
}

static void read_piece(struct transfer *transfer, const struct piece *piece, unsigned char *bytes) {
  for (uint64_t length = 0; length < piece->length && !transfer->stop;) {
    ssize_t count = pread((int)piece->fd, bytes + length, piece->length - length, (off_t)(piece->offset + length));
    if (count > 0) length += (uint64_t)count;
    else if (count == 0) fail(transfer, -ENODATA, piece, length);
    else if (errno != EINTR) fail(transfer, -errno, piece, length);
  }
}

/*
 * Allocates the pages of a piece of the target: huge ones if the kernel can, because single ones take far longer to
 * allocate and to free. The first byte is written first, because only ranges with a page can become a huge page. Fails
 * if no memory is left, in which case a write would end the process.
 */
static void allocate_pages(struct transfer *transfer, const struct piece *piece) {
  unsigned char *begin = transfer->mapped + piece->offset;
  for (uint64_t at = 0; at + HUGE_PAGE <= piece->length && piece->offset % HUGE_PAGE == 0; at += HUGE_PAGE) {
    if (madvise(begin + at, 1, MADV_POPULATE_WRITE_ADVICE) < 0) break;
    madvise(begin + at, HUGE_PAGE, MADV_COLLAPSE_ADVICE);
  }
  int is_missing = madvise(begin, piece->length, MADV_POPULATE_WRITE_ADVICE) < 0 && errno != EINVAL;
  if (is_missing) fail(transfer, -errno, piece, 0);
}

static int copy_piece(const struct plan *plan, const struct piece *piece, const struct buffer *buffer) {
  if (plan->target >= 0) return plan->copy_to_host(buffer->bytes, piece->address, piece->length, buffer->stream);
  return plan->copy_to_device(piece->address, buffer->bytes, piece->length, buffer->stream);
}

/* Awaits the copy of a buffer's piece. */
static void finish(struct transfer *transfer, struct buffer *buffer) {
  struct piece *piece = buffer->piece;
  if (!piece) return;
  buffer->piece = NULL;
  fail(transfer, transfer->plan.stream_synchronize(buffer->stream), piece, 0);
  if (transfer->error) return;
  if (transfer->plan.target >= 0) memcpy(transfer->mapped + piece->offset, buffer->bytes, piece->length);
  pthread_mutex_lock(&transfer->lock);
  piece->is_copied = 1;
  while ((uint64_t)transfer->copied < transfer->next && transfer->pieces[transfer->copied].is_copied) transfer->copied++;
  pthread_mutex_unlock(&transfer->lock);
}

static void move_pieces(struct transfer *transfer, struct buffer buffers[2]) {
  struct piece *piece;
  for (int i = 0; (piece = next_piece(transfer)) != NULL; i ^= 1) {
    struct buffer *buffer = &buffers[i];
    finish(transfer, buffer);
    if (transfer->plan.target < 0) read_piece(transfer, piece, buffer->bytes);
    if (transfer->stop) break;
    buffer->piece = piece;
    fail(transfer, copy_piece(&transfer->plan, piece, buffer), piece, 0);
    if (transfer->plan.target >= 0) allocate_pages(transfer, piece);
  }
  for (int i = 0; i < 2; i++) finish(transfer, &buffers[i]);
}

static void unmap_target(struct transfer *transfer) {
  if (transfer->reserved) munmap(transfer->reserved, transfer->plan.target_size + HUGE_PAGE);
  transfer->reserved = NULL;
}

/* Memory that cannot be page-locked serves, too: CUDA then copies it twice. */
static void *run_lane(void *argument) {
  struct transfer *transfer = argument;
  const struct plan *plan = &transfer->plan;
  size_t length = 2 * plan->capacity;
  unsigned char *bytes = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (bytes == MAP_FAILED) {
    fail(transfer, -errno, NULL, 0);
  } else {
    madvise(bytes, length, MADV_HUGEPAGE);
    struct buffer buffers[2] = { { bytes, NULL, NULL }, { bytes + plan->capacity, NULL, NULL } };
    int error = plan->context_set_current(plan->context);
    int is_locked = error == 0 && plan->host_register(bytes, length, 0) == 0;
    for (int i = 0; i < 2 && error == 0; i++) error = plan->stream_create(&buffers[i].stream, STREAM_NON_BLOCKING);
    if (error == 0) move_pieces(transfer, buffers);
    else fail(transfer, error, NULL, 0);
    for (int i = 0; i < 2; i++) if (buffers[i].stream) plan->stream_destroy(buffers[i].stream);
    if (is_locked) plan->host_unregister(bytes);
    munmap(bytes, length);
  }
  pthread_mutex_lock(&transfer->lock);
  /* The last thread unmaps the target, which takes long if the pages are not huge. */
  if (transfer->running == 1) unmap_target(transfer);
  transfer->running--;
  pthread_mutex_unlock(&transfer->lock);
  return NULL;
}

static void release(struct transfer *transfer) {
  unmap_target(transfer);
  pthread_mutex_destroy(&transfer->lock);
  free(transfer->pieces);
  free(transfer);
}

/* Maps the target at a multiple of the size of huge pages. */
static int map_target(struct transfer *transfer) {
  const struct plan *plan = &transfer->plan;
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void *reserved = mmap(NULL, plan->target_size + HUGE_PAGE, PROT_NONE, flags, -1, 0);
  if (reserved == MAP_FAILED) return -errno;
  transfer->reserved = reserved;
  transfer->mapped = (unsigned char *)(((uintptr_t)reserved + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1));
  int access = PROT_READ | PROT_WRITE;
  void *mapped = mmap(transfer->mapped, plan->target_size, access, MAP_SHARED | MAP_FIXED, (int)plan->target, 0);
  return mapped == MAP_FAILED ? -errno : 0;
}

/* Starts a transfer. The caller keeps all descriptors open until it has ended. */
EXPORT int poolpass_transfer(const struct plan *plan, const struct piece *pieces, uint64_t *out) {
  struct transfer *transfer = calloc(1, sizeof *transfer);
  if (!transfer) return -ENOMEM;
  pthread_mutex_init(&transfer->lock, NULL);
  transfer->plan = *plan;
  size_t length = plan->piece_count * sizeof *pieces;
  transfer->pieces = malloc(length + 1);
  int error = transfer->pieces ? 0 : -ENOMEM;
  if (error == 0) memcpy(transfer->pieces, pieces, length);
  if (error == 0 && plan->target >= 0) error = map_target(transfer);
  pthread_mutex_lock(&transfer->lock);
  for (uint64_t i = 0; i < plan->lanes && error == 0; i++) {
    if (start_thread(run_lane, transfer)) transfer->running++;
    else if (transfer->running == 0) error = -EAGAIN;
  }
  pthread_mutex_unlock(&transfer->lock);
  if (error == 0) *out = (uint64_t)(uintptr_t)transfer;
  else release(transfer);
  return error;
}

/* Returns the error of a transfer whose threads have ended, its descriptor and the offset there, and frees the transfer. */
EXPORT int poolpass_transfer_end(uint64_t address, uint64_t *failed_at) {
  struct transfer *transfer = (struct transfer *)(uintptr_t)address;
  pthread_mutex_lock(&transfer->lock);
  int error = transfer->running > 0 ? -EBUSY : (int)transfer->error;
  memcpy(failed_at, transfer->failed_at, sizeof transfer->failed_at);
  pthread_mutex_unlock(&transfer->lock);
  if (error != -EBUSY) release(transfer);
  return error;
}
