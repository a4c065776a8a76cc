/**
 * The instructions of PTX, as the contents of the PTX ISA manual, version 9.0, list them.
 *
 * @module
 */

/** A section of the manual that describes instructions. */
export interface ManualSection {
  readonly section: string;
  /** As the manual names it: `ld.global.nc`, or several opcodes. */
  readonly title: string;
  readonly opcodes: readonly string[];
  /** The modifier that tells it from other sections of its opcode: `async` of `st.async`. */
  readonly modifier?: string;
  /** The first architecture that has it, if that is newer than the software device's. */
  readonly architecture?: string;
}

/** A chapter of the manual, and the instructions of its sections. */
export interface ManualChapter {
  readonly section: string;
  readonly title: string;
  readonly sections: readonly ManualSection[];
}

/**
 * The chapters. Each line is the number of a section in its chapter, and its title; `(modifier: x)` and
 * `(architecture: x)` may follow. The opcodes are the first parts of the title's words.
 */
export const manual: readonly ManualChapter[] = [
  chapter(
    "9.7.1 Integer arithmetic",
    `1 add; 2 sub; 3 mul; 4 mad; 5 mul24; 6 mad24; 7 sad; 8 div; 9 rem; 10 abs; 11 neg; 12 min; 13 max; 14 popc;
    15 clz; 16 bfind; 17 fns; 18 brev; 19 bfe; 20 bfi; 21 szext; 22 bmsk; 23 dp4a; 24 dp2a`,
  ),
  chapter("9.7.2 Extended-precision integer arithmetic", "1 add.cc; 2 addc; 3 sub.cc; 4 subc; 5 mad.cc; 6 madc"),
  chapter(
    "9.7.3 Floating point",
    `1 testp; 2 copysign; 3 add; 4 sub; 5 mul; 6 fma; 7 mad; 8 div; 9 abs; 10 neg; 11 min; 12 max; 13 rcp;
    14 rcp.approx.ftz.f64; 15 sqrt; 16 rsqrt; 17 rsqrt.approx.ftz.f64; 18 sin; 19 cos; 20 lg2; 21 ex2; 22 tanh`,
  ),
  chapter(
    "9.7.4 Half-precision floating point",
    "1 add; 2 sub; 3 mul; 4 fma; 5 neg; 6 abs; 7 min; 8 max; 9 tanh; 10 ex2",
  ),
  chapter(
    "9.7.5 Mixed-precision floating point",
    "1 add (architecture: sm_100); 2 sub (architecture: sm_100); 3 fma (architecture: sm_100)",
  ),
  chapter("9.7.6 Comparison and selection", "1 set; 2 setp; 3 selp; 4 slct"),
  chapter("9.7.7 Half-precision comparison", "1 set; 2 setp"),
  chapter("9.7.8 Logic and shift", "1 and; 2 or; 3 xor; 4 not; 5 cnot; 6 lop3; 7 shf; 8 shl; 9 shr"),
  chapter(
    "9.7.9 Data movement and conversion",
    `3 mov; 5 shfl; 6 shfl.sync; 7 prmt; 8 ld; 9 ld.global.nc; 10 ldu; 11 st; 12 st.async;
    13 st.bulk (modifier: bulk); 14 multimem; 15 prefetch, prefetchu; 16 applypriority; 17 discard; 18 createpolicy;
    19 isspacep; 20 cvta; 21 cvt; 22 cvt.pack; 23 mapa; 24 getctarank; 25.3.1 cp.async; 25.3.2 cp.async.commit_group;
    25.3.3 cp.async.wait_group, cp.async.wait_all; 25.4.1 cp.async.bulk;
    25.4.2 cp.reduce.async.bulk; 25.4.3 cp.async.bulk.prefetch;
    25.5.2 cp.async.bulk.tensor; 25.5.3 cp.reduce.async.bulk.tensor;
    25.5.4 cp.async.bulk.prefetch.tensor; 25.6.1 cp.async.bulk.commit_group;
    25.6.2 cp.async.bulk.wait_group; 26 tensormap.replace`,
  ),
  chapter("9.7.10 Textures", "3 tex; 4 tld4; 5 txq; 6 istypep"),
  chapter("9.7.11 Surfaces", "1 suld; 2 sust; 3 sured; 4 suq"),
  chapter("9.7.12 Control flow", "3 bra; 4 brx.idx; 5 call; 6 ret; 7 exit"),
  chapter(
    "9.7.13 Parallel synchronization and communication",
    `1 bar, barrier; 2 bar.warp.sync; 3 barrier.cluster; 4 membar, fence; 5 atom; 6 red;
    7 red.async; 8 vote; 9 vote.sync; 10 match.sync; 11 activemask; 12 redux.sync;
    13 griddepcontrol; 14 elect.sync; 15 mbarrier; 15.15 cp.async.mbarrier.arrive;
    16 tensormap.cp_fenceproxy; 17 clusterlaunchcontrol.try_cancel; 18 clusterlaunchcontrol.query_cancel`,
  ),
  chapter(
    "9.7.14 Matrices of a warp",
    "4 wmma; 5.14 mma; 5.15 ldmatrix; 5.16 stmatrix; 5.17 movmatrix; 6.3 mma.sp",
  ),
  chapter(
    "9.7.15 Matrices of a warpgroup",
    "5.2 wgmma.mma_async; 6.3 wgmma.mma_async.sp; 7.1 wgmma.fence, wgmma.commit_group, wgmma.wait_group",
  ),
  chapter("9.7.16 Tensor cores of the fifth generation", "1 tcgen05 (architecture: sm_100a)"),
  chapter("9.7.17 Stack", "1 stacksave; 2 stackrestore; 3 alloca"),
  chapter(
    "9.7.18 Video",
    `1.1 vadd, vsub, vabsdiff, vmin, vmax; 1.2 vshl, vshr; 1.3 vmad; 1.4 vset;
    2.1 vadd2, vsub2, vavrg2, vabsdiff2, vmin2, vmax2; 2.2 vset2;
    2.3 vadd4, vsub4, vavrg4, vabsdiff4, vmin4, vmax4; 2.4 vset4`,
  ),
  chapter("9.7.19 Miscellaneous", "1 brkpt; 2 nanosleep; 3 pmevent; 4 trap; 5 setmaxnreg"),
];

function chapter(heading: string, sections: string): ManualChapter {
  const [section = "", title = ""] = split(heading);
  return {
    section,
    title,
    sections: sections.split(";").map((line) => {
      const [number, rest = ""] = split(line.trim());
      const [, name = "", key, value] = /^(.*?)(?: \((\w+): (.*)\))?$/.exec(rest)!;
      const opcodes = new Set(name.split(", ").map((each) => each.split(".")[0]!));
      return {
        section: `${section}.${number}`,
        title: name,
        opcodes: [...opcodes],
        ...key === undefined ? {} : { [key]: value },
      };
    }),
  };
}

/** The first word, and the rest. */
function split(text: string): [string, string] {
  const at = text.indexOf(" ");
  return [text.slice(0, at), text.slice(at + 1)];
}
