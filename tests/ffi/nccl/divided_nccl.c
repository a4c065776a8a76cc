// A stand-in for NCCL among ranks of which only this one comes: divisions are made when stub_divide is called.
#include <stdlib.h>
#include <string.h>

typedef struct comm {
  int rank, size, in_progress;
  struct comm *child, **newcomm;
} comm;

static int live, refused, holds, lost;

static comm *create(int rank, int size) {
  comm *made = calloc(1, sizeof(comm));
  made->rank = rank;
  made->size = size;
  live++;
  return made;
}

static comm *held;

static void finish(comm *parent) {
  if (!parent->in_progress) return;
  *parent->newcomm = parent->child;
  parent->in_progress = 0;
}

int stub_live(void) { return live; }
int stub_refused(void) { return refused; }
void stub_hold(int hold) { holds = hold; }
void stub_divide(void) { finish(held); }
/* A connection of all communicators was closed: ncclRemoteError. */
void stub_lose(void) { lost = 6; }

int ncclGetVersion(int *version) { *version = 23000; return 0; }
const char *ncclGetErrorString(int result) { return result == 4 ? "invalid argument" : "an error"; }
const char *ncclGetLastError(comm *of) { return ""; }
int ncclGetUniqueId(char *id) { memset(id, 7, 128); return 0; }
int ncclCommInitRankScalable(comm **newcomm, int nranks, int rank, int n, void *ids, void *config) {
  *newcomm = create(rank, nranks);
  return 7;
}
int ncclCommSplit(comm *parent, int color, int key, comm **newcomm, int *config) {
  if (parent->in_progress) return 4;
  parent->child = color < 0 ? NULL : create(parent->rank, parent->size);
  parent->newcomm = newcomm;
  parent->in_progress = 1;
  int is_blocking = config[4];
  if (holds && !is_blocking) held = parent;
  else finish(parent);
  return 7;
}
int ncclCommShrink(comm *parent, int *list, int count, comm **newcomm, int *config, int flags) {
  return ncclCommSplit(parent, 0, 0, newcomm, config);
}
int ncclCommUserRank(comm *of, int *rank) { *rank = of->rank; return 0; }
int ncclCommCount(comm *of, int *size) { *size = of->size; return 0; }
int ncclCommGetAsyncError(comm *of, int *error) {
  if (of == NULL) return 4;
  *error = of->in_progress ? 7 : lost;
  return 0;
}
int ncclCommDestroy(comm *of) {
  if (of->in_progress) { refused++; return 4; }
  live--;
  free(of);
  return 0;
}
int ncclCommAbort(comm *of) {
  finish(of);
  live--;
  free(of);
  return 0;
}
int ncclGroupStart(void) { return 0; }
int ncclGroupEnd(void) { return 0; }
int ncclAllReduce(void) { return 0; }
int ncclReduce(void) { return 0; }
int ncclBroadcast(void) { return 0; }
int ncclAllGather(void) { return 0; }
int ncclReduceScatter(void) { return 0; }
int ncclSend(void) { return 0; }
int ncclRecv(void) { return 0; }
