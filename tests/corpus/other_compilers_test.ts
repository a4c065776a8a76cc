import { tritonCorpus } from "./triton/build.ts";
import { testCorpus } from "./corpus_tests.ts";

testCorpus("Triton's corpus", tritonCorpus);
