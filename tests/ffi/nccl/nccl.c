// A stand-in for NCCL that computes nothing, and tells what it was called with. OLD leaves out what NCCL 2.22 lacks.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct { char internal[128]; } ncclUniqueId;
typedef struct {
  size_t size;
  unsigned magic, version;
  int blocking, cgaClusterSize, minCTAs, maxCTAs;
  const char *netName;
  int splitShare;
} ncclConfig_t;
enum { OWN_BYTES = 3 * sizeof(long) };
typedef void *comm_t, *stream_t;

static char told[4096];
const char *stand_in_told(void) { return told; }
// What the end of a group returns, too.
static int group_result;
static int tell(const char *name, const char *text) {
  snprintf(told, sizeof told, "%s %s", name, text);
  const int result = strstr(text, "count 13 ") ? 5 : 0;
  if (result != 0) group_result = result;
  return result;
}
#define TELL(...) \
  char text[1024]; \
  snprintf(text, sizeof text, __VA_ARGS__); \
  return tell(__func__, text)
static long at(const void *pointer) { return (long)pointer; }

int ncclGetVersion(int *version) {
#ifdef OLD
  *version = 21803;
#else
  *version = 22803;
#endif
  snprintf(told, sizeof told, "NVLS %s, connect %s", getenv("NCCL_NVLS_ENABLE"), getenv("NCCL_RUNTIME_CONNECT"));
  return 0;
}
const char *ncclGetErrorString(int result) { return result == 5 ? "invalid usage" : "other error"; }
const char *ncclGetLastError(comm_t comm) { return "thirteen is too many"; }
int ncclGetUniqueId(ncclUniqueId *id) {
  for (int i = 0; i < 128; i++) id->internal[i] = (char)(i * 7 + 1);
  // Another one each time: its name in memory must not be that of another process.
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const long own[] = {getpid(), now.tv_sec, now.tv_nsec};
  memcpy(id->internal, own, OWN_BYTES);
  return 0;
}
static int init(const char *name, comm_t *comm, int size, const ncclUniqueId *id, int rank, const ncclConfig_t *config) {
  int right = 1;
  for (int i = OWN_BYTES; i < 128; i++) right &= id->internal[i] == (char)(i * 7 + 1);
  snprintf(told, sizeof told, "%s size %d rank %d id %s, %zu bytes, magic %x, version %d, blocking %d, CTAs %d to %d", name,
           size, rank, right ? "right" : "wrong", config->size, config->magic, config->version, config->blocking,
           config->minCTAs, config->maxCTAs);
  *comm = (comm_t)5;
  return 7;
}
int ncclCommInitRankConfig(comm_t *comm, int size, ncclUniqueId id, int rank, ncclConfig_t *config) {
  return init("ncclCommInitRankConfig", comm, size, &id, rank, config);
}
#ifndef OLD
int ncclCommInitRankScalable(comm_t *comm, int size, int rank, int count, ncclUniqueId *id, ncclConfig_t *config) {
  return init("ncclCommInitRankScalable", comm, size, id, rank, config);
}
int ncclCommShrink(comm_t comm, int *list, int count, comm_t *out, ncclConfig_t *config, int flags) { return 3; }
int ncclAlltoAll(const void *source, void *target, size_t count, int type, comm_t comm, stream_t stream) {
  TELL("source %ld target %ld count %zu type %d comm %ld stream %ld", at(source), at(target), count, type, at(comm),
       at(stream));
}
#endif
int ncclCommSplit(comm_t comm, int color, int key, comm_t *out, ncclConfig_t *config) {
  *out = (comm_t)6;
  TELL("comm %ld color %d key %d blocking %d CTAs %d", at(comm), color, key, config->blocking, config->minCTAs);
}
int ncclCommUserRank(comm_t comm, int *rank) { return *rank = 0, 0; }
int ncclCommCount(comm_t comm, int *count) { return *count = 1, 0; }
int ncclCommGetAsyncError(comm_t comm, int *error) { return *error = 0, 0; }
int ncclCommDestroy(comm_t comm) { return 0; }
int ncclCommAbort(comm_t comm) { return 0; }
int ncclGroupStart(void) { return group_result = 0; }
int ncclGroupEnd(void) { return group_result; }
int ncclAllReduce(const void *source, void *target, size_t count, int type, int op, comm_t comm, stream_t stream) {
  TELL("source %ld target %ld count %zu type %d op %d comm %ld stream %ld", at(source), at(target), count, type, op,
       at(comm), at(stream));
}
int ncclReduce(const void *source, void *target, size_t count, int type, int op, int root, comm_t comm, stream_t stream) {
  TELL("source %ld target %ld count %zu type %d op %d root %d comm %ld stream %ld", at(source), at(target), count, type, op,
       root, at(comm), at(stream));
}
int ncclBroadcast(const void *source, void *target, size_t count, int type, int root, comm_t comm, stream_t stream) {
  TELL("source %ld target %ld count %zu type %d root %d comm %ld stream %ld", at(source), at(target), count, type, root,
       at(comm), at(stream));
}
int ncclAllGather(const void *source, void *target, size_t count, int type, comm_t comm, stream_t stream) {
  TELL("source %ld target %ld count %zu type %d comm %ld stream %ld", at(source), at(target), count, type, at(comm),
       at(stream));
}
int ncclReduceScatter(const void *source, void *target, size_t count, int type, int op, comm_t comm, stream_t stream) {
  TELL("source %ld target %ld count %zu type %d op %d comm %ld stream %ld", at(source), at(target), count, type, op,
       at(comm), at(stream));
}
int ncclSend(const void *source, size_t count, int type, int peer, comm_t comm, stream_t stream) {
  TELL("source %ld count %zu type %d peer %d comm %ld stream %ld", at(source), count, type, peer, at(comm), at(stream));
}
int ncclRecv(void *target, size_t count, int type, int peer, comm_t comm, stream_t stream) {
  TELL("target %ld count %zu type %d peer %d comm %ld stream %ld", at(target), count, type, peer, at(comm), at(stream));
}
