/* The structs that CUDA's functions take and return, for compilers without CUDA's headers. */
#include <stddef.h>

enum number { numbers_are_ints = 0 };
struct cudaMemLocation { enum number type; int id; };
struct cudaMemPoolProps {
  enum number allocType;
  enum number handleTypes;
  struct cudaMemLocation location;
  void *win32SecurityAttributes;
  size_t maxSize;
  unsigned short usage;
  unsigned char reserved[54];
};
struct cudaMemAccessDesc { struct cudaMemLocation location; enum number flags; };
struct cudaMemPoolPtrExportData { unsigned char reserved[64]; };
typedef struct { char reserved[64]; } cudaMemFabricHandle_t, cudaIpcMemHandle_t, cudaIpcEventHandle_t;
typedef struct { char bytes[16]; } cudaUUID_t;
