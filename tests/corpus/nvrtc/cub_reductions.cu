// CUB's reductions and scans of blocks and warps.
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>

constexpr int threads = 64;

struct Combine {
  __device__ unsigned operator()(unsigned a, unsigned b) const { return a * b; }
};

extern "C" __global__ void reduce_and_scan(const unsigned* x, unsigned* out) {
  using Reduce = cub::BlockReduce<unsigned, threads>;
  using Raking = cub::BlockReduce<unsigned, threads, cub::BLOCK_REDUCE_RAKING>;
  using Scan = cub::BlockScan<unsigned, threads>;
  using RakingScan = cub::BlockScan<unsigned, threads, cub::BLOCK_SCAN_RAKING>;
  using Warp = cub::WarpReduce<unsigned, 16>;
  using WarpScan = cub::WarpScan<unsigned>;
  __shared__ union {
    Reduce::TempStorage reduce;
    Raking::TempStorage raking;
    Scan::TempStorage scan;
    RakingScan::TempStorage rakingScan;
    Warp::TempStorage warp[threads / 16];
    WarpScan::TempStorage warpScan[threads / 32];
  } shared;
  const unsigned i = threadIdx.x;
  const unsigned value = x[blockIdx.x * threads + i];
  unsigned* row = out + (blockIdx.x * threads + i) * 8;
  const unsigned sum = Reduce(shared.reduce).Sum(value);
  __syncthreads();
  const unsigned product = Raking(shared.raking).Reduce(value | 1, Combine());
  __syncthreads();
  if (i == 0) row[0] = sum, row[1] = product;
  unsigned scanned, total;
  Scan(shared.scan).ExclusiveSum(value, scanned, total);
  row[2] = scanned;
  row[3] = total;
  __syncthreads();
  RakingScan(shared.rakingScan).InclusiveScan(value, scanned, cuda::maximum<>{});
  row[4] = scanned;
  __syncthreads();
  const unsigned least = Warp(shared.warp[i / 16]).Reduce(value, cuda::minimum<>{});
  row[5] = i % 16 == 0 ? least : 0;
  __syncthreads();
  WarpScan(shared.warpScan[i / 32]).InclusiveSum(value, scanned);
  row[6] = scanned;
  // Only the first thread of a segment has the sum.
  const unsigned segment = Warp(shared.warp[i / 16]).HeadSegmentedSum(value, i % 5 == 0);
  row[7] = i % 5 == 0 || i % 16 == 0 ? segment : 0;
}
