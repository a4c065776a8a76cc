// A module from PTX, and its variable.
import { open } from "../../../mod.ts";

const ptx = `.version 7.0
.target sm_60
.address_size 64
.visible .global .align 4 .u32 answer = 42;
.visible .entry add(.param .u32 summand) {
  .reg .b32 %r<3>;
  ld.param.u32 %r1, [summand];
  ld.global.u32 %r2, [answer];
  add.u32 %r2, %r2, %r1;
  st.global.u32 [answer], %r2;
  ret;
}
`;

using cuda = open();
using module = cuda.device(0).loadModule(ptx);
module.kernel("add").launch({ grid: 1, block: 1 }, 8);
const answer = module.getGlobal("answer");
console.log(module.kernelNames.join(" "), (await answer.read(Uint32Array)).join(" "));
