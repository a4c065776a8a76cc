import { clangCudaCorpus } from "./clang_cuda/build.ts";
import { numbaCorpus } from "./numba/build.ts";
import { nvrtcCorpus } from "./nvrtc/build.ts";
import { tritonCorpus } from "./triton/build.ts";
import { testCorpus } from "./corpus_tests.ts";

testCorpus("clang's corpus with CUDA's headers", clangCudaCorpus);
testCorpus("Numba's corpus", numbaCorpus);
testCorpus("NVRTC's corpus", nvrtcCorpus);
testCorpus("Triton's corpus", tritonCorpus);
