import { clangCorpus } from "./ptx/clang/build.ts";
import { testCorpus } from "./ptx_corpus.ts";

testCorpus("clang's corpus", clangCorpus);
