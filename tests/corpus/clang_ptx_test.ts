import { clangCorpus } from "./clang/build.ts";
import { testCorpus } from "./corpus_tests.ts";

testCorpus("clang's corpus", clangCorpus);
